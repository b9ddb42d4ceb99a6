"""Which variables a Jinja template reads from its context, told by its syntax tree.

A name counts where it may be read before the template itself has set it for certain. (Jinja's own
``find_undeclared_variables`` also counts names that are set before every read, once a branch sets
them again.)
"""

from collections.abc import Iterable

from jinja2 import nodes


def read_variables(tree: nodes.Template) -> frozenset[str]:
    """The names that a template reads from its context, those of the environment included."""
    reader = _Reader()
    reader.visit_all(tree.body, set())
    return frozenset(reader.reads)


class _Reader:
    """Walks the tree in the order of execution; ``known`` are the names that are set for certain.

    Branches share their scope, so what all of them set is known after them. Loops, macros and
    blocks have scopes of their own, whose names end with them.
    """

    def __init__(self) -> None:
        self.reads: set[str] = set()

    def visit_all(self, several: Iterable[nodes.Node | None], known: set[str]) -> None:
        for node in several:
            if node is not None:
                self.visit(node, known)

    def visit(self, node: nodes.Node, known: set[str]) -> None:
        match node:
            case nodes.Name(ctx="load") | nodes.NSRef():
                if node.name not in known:
                    self.reads.add(node.name)
            case nodes.Name():
                known.add(node.name)
            case nodes.If():
                self._branches(node, known)
            case nodes.For():
                self.visit(node.iter, known)
                inner = known | {"loop"}
                self.visit_all([node.target, node.test, *node.body], inner)
                self.visit_all(node.else_, set(known))
            case nodes.Macro():
                self._function(node, known)
                known.add(node.name)
            case nodes.CallBlock():
                self.visit(node.call, known)
                self._function(node, known)
            case nodes.Assign():
                self.visit_all([node.node, node.target], known)
            case nodes.AssignBlock():
                self.visit_all([node.filter, *node.body], set(known))
                self.visit(node.target, known)
            case nodes.With():
                self.visit_all(node.values, known)
                self.visit_all([*node.targets, *node.body], set(known))
            case nodes.FilterBlock() | nodes.Block() | nodes.Scope():
                self.visit_all(node.iter_child_nodes(), set(known))
            case _:
                self.visit_all(node.iter_child_nodes(), known)

    def _branches(self, node: nodes.If, known: set[str]) -> None:
        outcomes: list[set[str]] = []
        for branch in (node, *node.elif_):
            self.visit(branch.test, known)
            outcomes.append(set(known))
            self.visit_all(branch.body, outcomes[-1])
        outcomes.append(set(known))
        self.visit_all(node.else_, outcomes[-1])
        known |= set.intersection(*outcomes)

    def _function(self, node: nodes.Macro | nodes.CallBlock, known: set[str]) -> None:
        self.visit_all(node.defaults, known)
        self.visit_all([*node.args, *node.body], known | {"caller", "varargs", "kwargs"})
