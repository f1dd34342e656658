#!/usr/bin/env bash
# Makes (once) a Python environment with PyTorch's exporters and the tools that graph_size.py compares with,
# and prints its interpreter's path. It takes 2.5 GB.
# Usage: peers=$(integration-tests/judges/peers.sh) && "$peers" integration-tests/judges/graph_size.py --help
set -euo pipefail
venv="${ONNXD_PEERS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/onnxd-peers}"
python="$venv/bin/python"
check='import torch, torchvision, timm, transformers, onnx, onnxruntime, onnxscript, onnxslim, onnxsim'

# The wheel of torch on PyPI for x86_64 is linked with the libraries of CUDA, which take gigabytes and which an export
# never calls. Instead it gets empty libraries of their names; what they should define answers "no device" (100).
without_cuda() {
  local lib="$1/torch/lib" made
  made=$(mktemp -d)
  readelf -d "$lib"/*.so "$1"/torchvision/*.so |
    sed -nE 's/.*NEEDED.*\[(lib(cu|nccl|nvrtc|nvshmem_host)[a-zA-Z_]*\.so\.[0-9]+)\]/\1/p' | sort -u >"$made/libraries"
  nm -D --undefined-only "$lib"/*.so "$1"/torchvision/*.so 2>/dev/null |
    awk '$1 == "U" { sub(/@.*/, "", $2); if ($2 ~ /^_*(cu|nccl|nvrtc|nvshmem|nvjpeg)/) print $2 }' | sort -u |
    sed 's/.*/int &(void) { return 100; }/' >"$made/none.c"
  cc -shared -nostdlib -w -fno-builtin "$made/none.c" -Wl,-soname,libonnxd_no_cuda.so -o "$lib/libonnxd_no_cuda.so"
  while read -r name; do
    [ -e "$lib/$name" ] || cc -shared -nostdlib -x c /dev/null -x none -Wl,--no-as-needed "$lib/libonnxd_no_cuda.so" \
      -Wl,-rpath,'$ORIGIN' -Wl,-soname,"$name" -o "$lib/$name"
  done <"$made/libraries"
  rm -r "$made"
}

if [ ! -x "$python" ] || ! "$python" -c "$check" 2>/dev/null; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet 'numpy==2.4.6' 'onnx==1.23.2' 'onnxruntime==1.32.0' 'onnxscript==0.7.2' \
    'onnxslim==0.1.98' 'onnxsim==0.8.1' 'transformers==4.57.6' \
    sympy filelock jinja2 networkx fsspec pillow >&2
  "$venv/bin/pip" install --quiet --no-deps 'torch==2.9.1' 'torchvision==0.24.1' 'timm==1.0.31' >&2
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  "$python" -c 'import torch' 2>/dev/null || without_cuda "$site" >&2
  "$python" -c "$check" >&2
fi
echo "$python"
