"""Tiny random models in vLLM on the CPU: tokens with sixwarp's backend are those of vLLM's own attention.

The backend, its builder and its layers are the classes that run on a GPU; sixwarp's CPU engine computes.
"""

import json
import pathlib
import subprocess
import sys

import pytest
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
COMMON = dict(
    vocab_size=97, hidden_size=128, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    head_dim=64, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=1, tie_word_embeddings=False,
)  # fmt: skip
MIXED = dict(COMMON, sliding_window=16, layer_types=["sliding_attention", "full_attention"])
MODELS = {
    "llama": ("Llama", COMMON),
    "gemma2": ("Gemma2", dict(MIXED, query_pre_attn_scalar=64, tie_word_embeddings=True, attn_logit_softcapping=20.0)),
    "gpt_oss": ("GptOss", dict(MIXED, num_local_experts=4, num_experts_per_tok=2, intermediate_size=128)),
}


def save(name, folder):
    """Writes a model whose weights are large enough that its tokens differ."""
    kind, options = MODELS[name]
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(**options)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).float()
    with torch.no_grad():
        for parameter, weight in model.named_parameters():
            spread = {"norm": 0.1, "bias": 0.02, "sinks": 1.0, "embed_tokens": 1.0, "lm_head": 0.5}
            found = [value for part, value in spread.items() if part in parameter]
            weight.normal_(float("norm" in parameter), found[0] if found else 0.15)
    model.save_pretrained(folder)
    return str(folder)


def run(backend, folder):
    command = [sys.executable, str(HERE / "generate.py"), backend, folder]
    result = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in result.stdout.splitlines() if line.startswith("RESULT ")]
    assert result.returncode == 0 and lines, result.stdout[-4000:] + result.stderr[-6000:]
    return json.loads(lines[-1].removeprefix("RESULT "))


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_those_of_vllms_own_attention(name, tmp_path):
    folder = save(name, tmp_path)
    theirs, ours = run("own", folder), run("sixwarp", folder)
    assert ours["tokens"] == theirs["tokens"]
    for mine, own in zip(ours["logprobs"], theirs["logprobs"]):
        assert mine == pytest.approx(own, abs=2e-3)
    assert len({tuple(tokens) for tokens in ours["tokens"]}) > 1, "prompts matter"
    # Every layer, in steps that decode and in steps that do more.
    assert not theirs["calls"] and len(ours["calls"]) % 2 == 0
    longest = {longest for _, longest in ours["calls"]}
    assert 1 in longest and max(longest) > 1
