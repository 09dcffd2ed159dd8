#!/usr/bin/env python3
"""Generates the Python client from Baton's proto files.

Usage: generate.py [--proto DIR | --baton BINARY] [--out DIR]

DIR of --proto holds `baton/v1/*.proto` and `lf/a2a/v1/a2a.proto`: the folder `proto/` of a
checkout, or what `baton proto export DIR` wrote. With --baton, that command is run first.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]


def generate(proto, out):
    """Runs the protobuf compiler over every public file below `proto`."""
    out.mkdir(parents=True, exist_ok=True)
    files = sorted(path.relative_to(proto) for path in proto.rglob("*.proto"))
    # What else is in a checkout (the store's own messages, the bench) is not for clients.
    files = [str(path) for path in files if str(path).startswith(("baton/v1/", "lf/"))]
    if not files:
        sys.exit("no proto files below %s" % proto)
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", "-I%s" % proto, "-I%s" % well_known]
    arguments += ["--python_out=%s" % out, "--grpc_python_out=%s" % out]
    if protoc.main(arguments + files) != 0:
        sys.exit("the protobuf compiler failed")
    print("%d files generated in %s" % (len(files), out))


def main():
    parser = argparse.ArgumentParser(description="Generate the Python client.")
    parser.add_argument("--proto", type=pathlib.Path)
    parser.add_argument("--baton", help="the baton binary, for `baton proto export`")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "python-client")
    given = parser.parse_args()
    if given.baton:
        with tempfile.TemporaryDirectory() as exported:
            subprocess.run([given.baton, "proto", "export", exported], check=True,
                           stdout=subprocess.DEVNULL)
            generate(pathlib.Path(exported), given.out)
    else:
        generate(given.proto or ROOT / "proto", given.out)


if __name__ == "__main__":
    main()
