def test_try(read, lines, run):
    chat, completion = lines
    r = read([chat("a"), chat("b", stop=["x"]), chat("c", messages=[{"role":"developer","content":"BANANA"}]), "{", chat("a"), chat("d")])
    print(r)
    print(run(b"[\n{}\n]"))
