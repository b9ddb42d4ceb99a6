"""The tools of a chat line: checked for the shape that chat templates read."""

from gateway.intake.refusal import LineRefused, shown


def read_tools(value: object) -> list[dict[str, object]] | None:
    """Check the ``tools`` of a chat body.

    Returns:
        The tool definitions as given, or None where the line has none (null and ``[]`` included).

    Raises:
        LineRefused: ``invalid_tools``.
    """
    if value is None or value == []:
        return None
    if not isinstance(value, list):
        raise _invalid("tools", "a list of tool definitions", value)
    for index, tool in enumerate(value):
        _check_tool(f"tools[{index}]", tool)
    return value


def _check_tool(where: str, value: object) -> None:
    if not isinstance(value, dict):
        raise _invalid(where, "an object", value)
    if value.get("type") != "function":
        raise _invalid(f"{where}.type", '"function"', value.get("type"))
    function = value.get("function")
    if not isinstance(function, dict):
        raise _invalid(f"{where}.function", "an object", function)
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise _invalid(f"{where}.function.name", "a text", name)
    description = function.get("description")
    if description is not None and not isinstance(description, str):
        raise _invalid(f"{where}.function.description", "a text", description)
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise _invalid(f"{where}.function.parameters", "a JSON schema", parameters)


def _invalid(where: str, allowed: str, found: object) -> LineRefused:
    return LineRefused("invalid_tools", f"{where} must be {allowed}; found {shown(found)}.")
