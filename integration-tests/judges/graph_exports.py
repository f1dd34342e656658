"""Exports of torchvision, timm and transformers architectures with random weights, as users of PyTorch make them.

    graph_exports.py --exports DIR [--list] [NAME ...]

Writes DIR/NAME.onnx and DIR/NAME.npz (its inputs) for each NAME that is not there yet; without names, for all.
A NAME is architecture, exporter and opset: `bert-torchscript14`, `bert-dynamo18`. A text that is no name takes all
names with that text: `bert`. The architectures are in graph_models.py. Needs the Python of peers.sh. Used by
graph_size.py.
"""
import argparse
import os
import sys
import time
import traceback
import warnings

from graph_models import ARCHITECTURES


def names():
    """Each export's name, with its architecture and variant."""
    rows = ((name, variant) for name, (_, variants) in ARCHITECTURES.items() for variant in variants)
    return {f"{name}-{variant.rstrip('*')}": (name, variant) for name, variant in rows}


def randomized(module):
    """Random numbers where a fresh module has zeros and ones, which tools would remove."""
    import torch

    module.eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            if tensor.dim() == 1 and tensor.is_floating_point() and "inv_freq" not in name:
                if name.endswith("running_var"):
                    tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
                else:
                    tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return module


def export(made, variant, target):
    import torch

    fixed, variant = variant.endswith("*"), variant.rstrip("*")
    exporter, opset = variant.rstrip("0123456789"), int("".join(c for c in variant if c.isdigit()))
    module, args = randomized(made.module), tuple(made.inputs.values())
    dynamic = {} if fixed else made.dynamic
    common = {"opset_version": opset, "input_names": list(made.inputs), "output_names": made.outputs}
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        if exporter == "dynamo":
            # It fails on many transformers where the sequence is open, too.
            first = {name: {0: axes[0]} for name, axes in dynamic.items() if 0 in axes}
            shapes = tuple(first.get(name) for name in made.inputs) if first else None
            # A module that takes `*args` has one parameter, the tuple.
            if shapes and type(module).__name__ == "Named":
                shapes = (shapes,)
            torch.onnx.export(module, args, target, dynamo=True, dynamic_shapes=shapes, external_data=False,
                              verbose=False, **common)
        else:
            plain_attention(module, opset)
            torch.onnx.export(module, args, target, dynamo=False, dynamic_axes=dynamic or None, **common)
    return {name: value.numpy() for name, value in made.inputs.items()}


def plain_attention(module, opset):
    """Attention as products and a softmax, where the older exporter has nothing for the fused operator."""
    inner = getattr(module, "inner", None)
    causal = any(text in type(inner).__name__ for text in ("CausalLM", "LMHead"))
    if hasattr(inner, "set_attn_implementation") and (opset < 14 or causal):
        inner.set_attn_implementation("eager")
    for part in module.modules():
        if hasattr(part, "fused_attn") and (opset < 14 or type(part).__name__ == "EvaAttention"):
            part.fused_attn = False


def write(name, folder):
    import numpy as np
    import onnx
    import torch

    architecture_, variant = names()[name]
    torch.manual_seed(7)
    started = time.time()
    draft = os.path.join(folder, f"{name}.draft")
    inputs = export(ARCHITECTURES[architecture_][0](), variant, draft)
    given = [value.name for value in onnx.load(draft).graph.input]
    np.savez(os.path.join(folder, f"{name}.npz"), **{key: inputs[key] for key in given})
    os.rename(draft, os.path.join(folder, f"{name}.onnx"))
    return f"{time.time() - started:.0f} s"


def missing(folder, wanted):
    """The exports that are asked for and not in the folder."""
    exact = [text for text in wanted if text in names()]
    parts = [text for text in wanted if text not in exact]
    chosen = [name for name in names() if not wanted or name in exact or any(text in name for text in parts)]
    return [name for name in chosen if not os.path.exists(os.path.join(folder, f"{name}.onnx"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exports", required=True)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.list:
        print("\n".join(names()))
        return 0
    warnings.filterwarnings("ignore")
    os.makedirs(args.exports, exist_ok=True)
    # Exporters print whole graphs, also from C++; those go to stderr.
    said, failed = os.fdopen(os.dup(1), "w"), []
    os.dup2(2, 1)
    for name in missing(args.exports, args.names):
        try:
            print(f"{name}: {write(name, args.exports)}", file=said, flush=True)
        except Exception as problem:  # noqa: BLE001 - whatever an exporter throws: the next model comes
            failed.append(name)
            reason = f"{type(problem).__name__} {problem}".strip().splitlines()[0][:300]
            print(f"{name}: not exported: {reason}", file=said, flush=True)
            traceback.print_exc()
    print(f"{len(failed)} not exported: {' '.join(failed)}" if failed else "all exported", file=said, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
