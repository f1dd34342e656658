"""Writes operators.txt from the schema registry of the official `onnx` package.

    python core/ir/src/schema/dump_schema.py > core/ir/src/schema/operators.txt

The form is described in `mod.rs`.
"""

import onnx
from onnx import defs

OPTION = defs.OpSchema.FormalParameterOption
KIND = {
    "FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g",
    "FLOATS": "fs", "INTS": "is", "STRINGS": "ss", "TENSORS": "ts", "GRAPHS": "gs",
    "SPARSE_TENSOR": "sp", "SPARSE_TENSORS": "sps", "TYPE_PROTO": "tp", "TYPE_PROTOS": "tps",
}


def short(type_str):
    """`tensor(float)` as `float`, without blanks."""
    text = type_str.replace(" ", "")
    return text[7:-1] if text.startswith("tensor(") else text


def parameter(p):
    mark = {OPTION.Single: "", OPTION.Optional: "?", OPTION.Variadic: f"*{p.min_arity}"}[p.option]
    if p.option == OPTION.Variadic and not p.is_homogeneous:
        mark += "~"
    declared = p.type_str
    if declared.startswith(("tensor(", "seq(", "map(", "optional(")):
        declared = "=" + short(declared)
    return f"{p.name or '_'}{mark}:{declared}"


def default(attribute):
    value = attribute.default_value
    if not value.name:
        return ""
    kind = attribute.type.name
    if kind == "INT":
        return f"={value.i}"
    if kind == "FLOAT":
        return f"={value.f:.9g}"
    if kind == "STRING":
        text = value.s.decode()
        return f"={text}" if text.isprintable() and " " not in text and text else ""
    if kind == "INTS" and value.ints:
        return "=" + ",".join(str(i) for i in value.ints)
    return ""


def attribute(a):
    return f"{a.name}:{KIND[a.type.name]}{'!' if a.required else ''}{default(a)}"


def dump(schemas, versions):
    """One text of all `schemas`, which are sorted by domain; `versions` is the newest of each."""
    sets = {}
    for schema in schemas:
        for constraint in schema.type_constraints:
            sets.setdefault(" ".join(sorted(map(short, constraint.allowed_type_strs))), None)
    for number, types in enumerate(sorted(sets)):
        sets[types] = number

    for types, number in sorted(sets.items(), key=lambda item: item[1]):
        print(f"types {number} {types}")
    domain = None
    for s in schemas:
        if s.domain != domain:
            domain = s.domain
            print(f"domain {versions[domain]} {domain}".rstrip())
        parts = [
            f"{s.name} {s.since_version}{' deprecated' if s.deprecated else ''}",
            " ".join(map(parameter, s.inputs)),
            " ".join(map(parameter, s.outputs)),
            " ".join(attribute(a) for _, a in sorted(s.attributes.items())),
            " ".join(
                f"{c.type_param_str}={sets[' '.join(sorted(map(short, c.allowed_type_strs)))]}"
                for c in s.type_constraints
            ),
            f"{s.min_input} {s.max_input} {s.min_output} {s.max_output}",
        ]
        print("|".join(parts).replace("2147483647", "*"))


def main():
    schemas = sorted(
        defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version)
    )
    versions = {}
    for schema in schemas:
        versions[schema.domain] = max(versions.get(schema.domain, 0), schema.since_version)
    versions[""] = defs.onnx_opset_version()
    print(f"# onnx {onnx.__version__}; written by dump_schema.py")
    dump(schemas, versions)


if __name__ == "__main__":
    main()
