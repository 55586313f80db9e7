"""Writes docs/python-reference.md from the docstrings of the package.

    reference.py FILE
"""

import inspect
import re
import sys

import trijet
import trijet.alloc
import trijet.torch
from trijet import errors, ops

HEAD = """# Reference for Python

<!-- Written by `cargo xtask python` from the docstrings of python/trijet. -->
[Python in ten minutes](python.md) shows how the parts fit together.
"""


def text(value):
    """A docstring as Markdown: the examples as programs, and the names of Sphinx as code."""
    found = inspect.getdoc(value) or ""
    found = re.sub(r":(?:class|func|mod|meth):`([^`]*)`", r"`\1`", found).replace("``", "`")
    lines, is_example = [], False
    for line in found.split("\n"):
        starts = line.startswith(">>>")
        if starts and not is_example:
            lines.append("```pycon")
        if is_example and not line.strip():
            lines.append("```")
        is_example = starts or (is_example and bool(line.strip()))
        lines.append(line)
    return "\n".join(lines + (["```"] if is_example else []))


def signature(value):
    """The signature without the types, and without `self`."""
    found = inspect.signature(value)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in found.parameters.items()
        if name != "self"
    ]
    return str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def entry(name, value, level=3):
    title = f"{'#' * level} `{name}{signature(value)}`" if callable(value) else f"{'#' * level} `{name}`"
    return f"{title}\n\n{text(value)}\n"


def members(value):
    """The public properties and methods of a class."""
    # The order of a class of the extension module differs from process to process.
    is_native = value.__module__ == "builtins"
    for name, member in sorted(vars(value).items()) if is_native else vars(value).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"- `{name}`: {text(member)}"
        elif inspect.isfunction(member) or inspect.ismethoddescriptor(member):
            words = text(member).split("\n\n")[0].replace("\n", " ")
            yield f"- `{name}{signature(member)}`: {words}" if inspect.isfunction(member) else f"- `{name}()`: {words}"
        elif inspect.isgetsetdescriptor(member):
            yield f"- `{name}`: {text(member)}"


def wrapped(line, width=120):
    """A line of prose within the columns of the documents."""
    if len(line) <= width or line.startswith(("#", "`", "|", ">>>", "...")):
        return line
    words, lines, indent = line.split(" "), [""], "  " if line.startswith("- ") else ""
    for word in words:
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append(indent + word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return "\n".join(lines)


def main():
    parts = [HEAD, "## Jobs\n"]
    for name in ("map", "map_shard", "plan", "stage", "array_module"):
        parts.append(entry(f"trijet.{name}", getattr(trijet, name)))
    parts.append(entry("trijet.Kernel", trijet.Kernel))
    parts.append("## Reports\n")
    for name in ("Report", "Plan"):
        value = getattr(trijet, name)
        parts.append(f"### `trijet.{name}`\n\n{text(value)}\n")
        listed = list(members(value))
        parts.append("\n".join(listed) + "\n" if listed else "")
    parts.append(f"## Operations\n\n{text(ops)}\n")
    parts += [f"### `trijet.ops.{name}{signature(getattr(ops, name))}`\n\n{text(getattr(ops, name))}\n" for name in ops.__all__ if name != "Operation"]
    parts.append("## Arrays of devices\n")
    for name in ("empty", "asarray", "from_dlpack", "to_numpy"):
        parts.append(entry(f"trijet.{name}", getattr(trijet, name)))
    parts.append(f"### `trijet.Buffer`\n\n{text(trijet.Buffer)}\n\n" + "\n".join(members(trijet.Buffer)) + "\n")
    parts.append("## Feeds of batches\n")
    parts.append(entry("trijet.torch.DeviceFeed", trijet.torch.DeviceFeed))
    parts.append("## Checks and traces\n")
    for name in ("check", "trace", "read"):
        parts.append(entry(f"trijet.{name}", getattr(trijet, name)))
    parts.append(f"### `trijet.Saved`\n\n{text(trijet.Saved)}\n\n" + "\n".join(members(trijet.Saved)) + "\n")
    parts.append(f"## The heap for other packages\n\n{text(trijet.alloc)}\n")
    for name in ("install", "stats", "forget_stream", "library_path"):
        parts.append(entry(f"trijet.alloc.{name}", getattr(trijet.alloc, name)))
    parts.append(f"## Errors\n\n{text(errors)}\n")
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    parts.append("\n".join(f"- `{value.__name__}`: {text(value)}" for value in classes) + "\n")
    whole = "\n".join(parts)
    whole = "\n".join(wrapped(line) for line in whole.split("\n"))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(re.sub(r"\n{3,}", "\n\n", whole).rstrip() + "\n")


main()
