#!/usr/bin/env python3
"""Prints a folder with the case lists that the corpus can judge: cases.py SHARED SUITE.

Leaves out cases whose dropped files the corpus does not hold, and cases whose reference records fewer outputs than the network
has targets (N2D2 wrote one of two), each with its reason on standard error.
"""
import json
import os
import sys
import tempfile

PARTIAL_REFERENCE = {"app_face_linear", "app_face_logistic"}

shared, suite = sys.argv[1:]
corpus = os.path.join(shared, "corpus")
with open(os.path.join(shared, "acceptance", "cases", f"{suite}.json")) as f:
    cases = json.load(f)
kept = []
for case in cases:
    missing = [p for p in case["drop"] if not os.path.exists(os.path.join(corpus, p))]
    if missing:
        print(f"left out {case['id']}: the corpus lacks {', '.join(missing)}", file=sys.stderr)
    elif case["id"] in PARTIAL_REFERENCE:
        print(f"left out {case['id']}: the reference holds one of two outputs", file=sys.stderr)
    else:
        kept.append(case)
folder = tempfile.mkdtemp(prefix="cases-")
with open(os.path.join(folder, f"{suite}.json"), "w") as f:
    json.dump(kept, f)
print(folder)
