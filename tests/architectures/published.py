"""Sizes of public models, typed from their papers and model cards, and how many parameters they have.

Each count is that of the trained parameters of the class of transformers 5.24 at these sizes (on PyTorch's meta device,
tied weights once), unless it says otherwise. Active ones are counted as Llama 4 and Mixtral count them: with embedding
and decoder.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Count(NamedTuple):
    """Parameters in all, and those that a token uses (None: all)."""

    parameters: int
    active: int | None


SIZES = "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"


def decoder(kind: str, *sizes: int, **more: Any) -> dict[str, Any]:
    """A config.json with the keys that most decoders have."""
    return {"model_type": kind} | dict(zip(SIZES, sizes, strict=True)) | more


def latent(*sizes: int, **more: Any) -> dict[str, Any]:
    """DeepSeek-V2 and V3."""
    heads = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    return decoder("deepseek_v3", *sizes) | heads | more


def bart(kind: str, hidden: int, layers: int, heads: int, vocabulary: int, **more: Any) -> dict[str, Any]:
    """Encoders and decoders of as many blocks."""
    return {
        "model_type": kind, "d_model": hidden, "encoder_layers": layers, "decoder_layers": layers,
        "encoder_attention_heads": heads, "decoder_attention_heads": heads, "encoder_ffn_dim": 4 * hidden,
        "decoder_ffn_dim": 4 * hidden, "vocab_size": vocabulary,
    } | more  # fmt: skip


BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
KV8: dict[str, Any] = {"num_key_value_heads": 8}
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama 3.1 8B": decoder("llama", 4096, 14336, 32, 32, 128256, **KV8),
    "Llama 3.2 1B": decoder("llama", 2048, 8192, 16, 32, 128256, **KV8, head_dim=64, tie_word_embeddings=True),
    "Mistral 7B": decoder("mistral", 4096, 14336, 32, 32, 32000, **KV8, sliding_window=4096),
    "Qwen2.5 0.5B": decoder("qwen2", 896, 4864, 24, 14, 151936, num_key_value_heads=2, tie_word_embeddings=True),
    "Qwen3 8B": decoder("qwen3", 4096, 12288, 36, 32, 151936, **KV8, head_dim=128),
    "Qwen1.5 MoE A2.7B": decoder(
        "qwen2_moe", 2048, 5632, 24, 16, 151936, num_key_value_heads=16, num_experts=60, num_experts_per_tok=4,
        moe_intermediate_size=1408, shared_expert_intermediate_size=5632, decoder_sparse_step=1,
    ),
    "Qwen3 30B A3B": decoder(
        "qwen3_moe", 2048, 6144, 48, 32, 151936, num_key_value_heads=4, head_dim=128, num_experts=128,
        num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[],
    ),
    "Mixtral 8x7B": decoder("mixtral", 4096, 14336, 32, 32, 32000, **KV8, num_local_experts=8, num_experts_per_tok=2),
    "Gemma 2B": decoder("gemma", 2048, 16384, 18, 8, 256000, num_key_value_heads=1, head_dim=256),
    "Gemma 2 2B": decoder(
        "gemma2", 2304, 9216, 26, 8, 256000, num_key_value_heads=4, head_dim=256, sliding_window=4096
    ),
    "Gemma 3 1B": decoder(
        "gemma3_text", 1152, 6912, 26, 4, 262144, num_key_value_heads=1, head_dim=256, sliding_window=512,
        sliding_window_pattern=6,
    ),
    "Phi-1.5": decoder("phi", 2048, 8192, 24, 32, 51200, partial_rotary_factor=0.5),
    "Phi-2": decoder("phi", 2560, 10240, 32, 32, 51200, partial_rotary_factor=0.4),
    "Phi-3 mini": decoder("phi3", 3072, 8192, 32, 32, 32064, num_key_value_heads=32, sliding_window=2047),
    "Phi-3.5 MoE": decoder(
        "phimoe", 4096, 6400, 32, 32, 32064, **KV8, num_local_experts=16, num_experts_per_tok=2, attention_bias=True,
        lm_head_bias=True, sliding_window=131072,
    ),
    "OLMo 1B": decoder("olmo", 2048, 8192, 16, 16, 50304, tie_word_embeddings=True),
    "OLMo 2 7B": decoder("olmo2", 4096, 11008, 32, 32, 100352),
    "OLMo 3 7B": decoder("olmo3", 4096, 11008, 32, 32, 100278, sliding_window=4096),
    "OLMoE 1B 7B": decoder("olmoe", 2048, 1024, 16, 16, 50304, num_experts=64, num_experts_per_tok=8),
    "Granite 3.1 2B": decoder("granite", 2048, 8192, 40, 32, 49155, **KV8, tie_word_embeddings=True),
    "Granite 3.1 1B A400M": decoder(
        "granitemoe", 1024, 512, 24, 16, 49155, **KV8, num_local_experts=32, num_experts_per_tok=8,
        tie_word_embeddings=True,
    ),
    "SmolLM3 3B": decoder("smollm3", 2048, 11008, 36, 16, 128256, num_key_value_heads=4),
    "Nemotron 4 Minitron 4B": decoder("nemotron", 3072, 9216, 32, 24, 256000, **KV8, head_dim=128),
    "Seed OSS 36B": decoder("seed_oss", 5120, 27648, 64, 80, 155136, **KV8, head_dim=128, attention_bias=True),
    "EXAONE 4.0 1.2B": decoder(
        "exaone4", 2048, 4096, 30, 32, 102400, **KV8, head_dim=64, tie_word_embeddings=True, sliding_window=None,
        sliding_window_pattern=None, layer_types=["full_attention"] * 30,
    ),
    "GLM-4 9B": decoder("glm", 4096, 13696, 40, 32, 151552, num_key_value_heads=2, head_dim=128, attention_bias=True),
    "GLM-4 9B 0414": decoder(
        "glm4", 4096, 13696, 40, 32, 151552, num_key_value_heads=2, head_dim=128, attention_bias=False
    ),
    "GLM-4.5 Air": decoder(
        "glm4_moe", 4096, 10944, 46, 96, 151552, **KV8, head_dim=128, attention_bias=True, n_routed_experts=128,
        num_experts_per_tok=8, moe_intermediate_size=1408, n_shared_experts=1, first_k_dense_replace=1,
        use_qk_norm=False,
    ),
    "DeepSeek-V2 Lite": latent(
        2048, 10944, 27, 16, 102400, model_type="deepseek_v2", q_lora_rank=None, n_routed_experts=64,
        num_experts_per_tok=6, moe_intermediate_size=1408, n_shared_experts=2, first_k_dense_replace=1,
    ),
    "DeepSeek-V2": latent(
        5120, 12288, 60, 128, 102400, model_type="deepseek_v2", q_lora_rank=1536, n_routed_experts=160,
        num_experts_per_tok=6, moe_intermediate_size=1536, n_shared_experts=2, first_k_dense_replace=1,
    ),
    "DeepSeek-V3": latent(
        7168, 18432, 61, 128, 129280, q_lora_rank=1536, n_routed_experts=256, num_experts_per_tok=8,
        moe_intermediate_size=2048, n_shared_experts=1, first_k_dense_replace=3, num_nextn_predict_layers=1,
    ),
    "Kimi K2": latent(
        7168, 18432, 61, 64, 163840, model_type="kimi_k2", q_lora_rank=1536, n_routed_experts=384,
        num_experts_per_tok=8, moe_intermediate_size=2048, n_shared_experts=1, first_k_dense_replace=1,
    ),
    "gpt-oss 20B": decoder(
        "gpt_oss", 2880, 2880, 24, 64, 201088, **KV8, head_dim=64, num_local_experts=32, num_experts_per_tok=4,
        sliding_window=128, layer_types=["sliding_attention", "full_attention"] * 12,
    ),
    "gpt-oss 120B": decoder(
        "gpt_oss", 2880, 2880, 36, 64, 201088, **KV8, head_dim=64, num_local_experts=128, num_experts_per_tok=4,
        sliding_window=128,
    ),
    "Llama 4 Scout, text": decoder(
        "llama4_text", 5120, 8192, 48, 40, 202048, **KV8, head_dim=128, intermediate_size_mlp=16384,
        num_local_experts=16, num_experts_per_tok=1, interleave_moe_layer_step=1, attention_chunk_size=8192,
    ),
    "Llama 4 Maverick, text": decoder(
        "llama4_text", 5120, 8192, 48, 40, 202048, **KV8, head_dim=128, intermediate_size_mlp=16384,
        num_local_experts=128, num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=8192,
    ),
    "StableLM 3B": decoder(
        "stablelm", 2560, 6912, 32, 32, 50304, num_key_value_heads=32, partial_rotary_factor=0.25
    ),
    "StableLM 2 1.6B": decoder(
        "stablelm", 2048, 5632, 24, 32, 100352, num_key_value_heads=32, partial_rotary_factor=0.25, use_qkv_bias=True
    ),
    "StarCoder2 3B": decoder("starcoder2", 3072, 12288, 30, 24, 49152, num_key_value_heads=2, use_bias=True),
    "Command R": decoder("cohere", 8192, 22528, 40, 64, 256000, num_key_value_heads=64, use_qk_norm=False),
    "Command R7B": decoder("cohere2", 4096, 14336, 32, 32, 256000, **KV8, head_dim=128, sliding_window=4096),
    "Falcon 7B": decoder(
        "falcon", 4544, 18176, 32, 71, 65024, multi_query=True, parallel_attn=True, bias=False, alibi=False,
        new_decoder_architecture=False,
    ),
    "Falcon 40B": decoder(
        "falcon", 8192, 32768, 60, 128, 65024, num_kv_heads=8, new_decoder_architecture=True, parallel_attn=True,
        bias=False, alibi=False,
    ),
    "Falcon RW 1B": decoder(
        "falcon", 2048, 8192, 24, 32, 50304, multi_query=False, parallel_attn=False, bias=True, alibi=True,
        new_decoder_architecture=False,
    ),
    "BLOOM 560M": {"model_type": "bloom", "hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880},
    "BLOOM": {"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880},
    "MPT 7B": {"model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 50432,
               "expansion_ratio": 4, "no_bias": True},
    "GPT-J 6B": {"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "vocab_size": 50400,
                 "n_positions": 2048, "rotary_dim": 64, "tie_word_embeddings": False},
    "CodeGen 350M": {"model_type": "codegen", "n_embd": 1024, "n_layer": 20, "n_head": 16, "vocab_size": 51200,
                     "n_positions": 2048, "rotary_dim": 32, "tie_word_embeddings": False},
    "SantaCoder": {"model_type": "gpt_bigcode", "n_embd": 2048, "n_layer": 24, "n_head": 16, "vocab_size": 49280,
                   "n_positions": 2048, "n_inner": 8192, "multi_query": True},
    "GPT-Neo 125M": {"model_type": "gpt_neo", "hidden_size": 768, "num_layers": 12, "num_heads": 12,
                     "vocab_size": 50257, "max_position_embeddings": 2048, "window_size": 256,
                     "attention_types": [[["global", "local"], 6]]},
    "GPT-NeoX 20B": decoder("gpt_neox", 6144, 24576, 44, 64, 50432, tie_word_embeddings=False),
    "Pythia 6.9B": decoder("gpt_neox", 4096, 16384, 32, 32, 50432, tie_word_embeddings=False),
    "OPT 125M": {"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_attention_heads": 12,
                 "num_hidden_layers": 12, "vocab_size": 50272, "max_position_embeddings": 2048},
    "GPT-2": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257,
              "n_positions": 1024},
    "BERT base": BASE | {"model_type": "bert", "vocab_size": 30522, "max_position_embeddings": 512,
                         "type_vocab_size": 2},
    "RoBERTa base": BASE | {"model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 514,
                            "type_vocab_size": 1},
    "XLM-R base": BASE | {"model_type": "xlm-roberta", "vocab_size": 250002, "max_position_embeddings": 514,
                          "type_vocab_size": 1},
    "DistilBERT": {"model_type": "distilbert", "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12,
                   "vocab_size": 30522, "max_position_embeddings": 512},
    "ALBERT base": BASE | {"model_type": "albert", "vocab_size": 30000, "max_position_embeddings": 512,
                           "type_vocab_size": 2, "embedding_size": 128},
    "ELECTRA base": BASE | {"model_type": "electra", "vocab_size": 30522, "max_position_embeddings": 512,
                            "type_vocab_size": 2, "embedding_size": 768},
    "ELECTRA small": {"model_type": "electra", "hidden_size": 256, "num_hidden_layers": 12, "num_attention_heads": 4,
                      "intermediate_size": 1024, "vocab_size": 30522, "max_position_embeddings": 512,
                      "type_vocab_size": 2, "embedding_size": 128},
    "ModernBERT base": decoder("modernbert", 768, 1152, 22, 12, 50368, local_attention=128,
                               global_attn_every_n_layers=3, max_position_embeddings=8192),
    "ViT B/16": BASE | {"model_type": "vit", "image_size": 224, "patch_size": 16,
                        "id2label": {str(n): "x" for n in range(1000)}},
    "T5 base": {"model_type": "t5", "d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12,
                "vocab_size": 32128, "n_positions": 512},
    "T5 1.1 base": {"model_type": "t5", "d_model": 768, "d_kv": 64, "d_ff": 2048, "num_layers": 12, "num_heads": 12,
                    "vocab_size": 32128, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "mT5 small": {"model_type": "mt5", "d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8, "num_heads": 6,
                  "vocab_size": 250112, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "BART large": bart("bart", 1024, 12, 16, 50265, max_position_embeddings=1024),
    "mBART large": bart("mbart", 1024, 12, 16, 250027, max_position_embeddings=1024),
    "Pegasus large": bart("pegasus", 1024, 16, 16, 96103, max_position_embeddings=1024),
    "NLLB 600M": bart("m2m_100", 1024, 12, 16, 256206, max_position_embeddings=1024),
    "OPUS-MT en-de": bart("marian", 512, 6, 8, 58101, max_position_embeddings=512),
    "Whisper tiny": bart("whisper", 384, 4, 6, 51865, num_mel_bins=80, max_source_positions=1500,
                         max_target_positions=448),
    "Whisper large v3": bart("whisper", 1280, 32, 20, 51866, num_mel_bins=128, max_source_positions=1500,
                             max_target_positions=448),
    "Mamba 130M": {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16,
                   "vocab_size": 50280, "expand": 2, "conv_kernel": 4, "time_step_rank": 48, "intermediate_size": 1536},
    "Falcon Mamba 7B": {"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64, "state_size": 16,
                        "vocab_size": 65024, "intermediate_size": 8192, "time_step_rank": 256, "conv_kernel": 4,
                        "tie_word_embeddings": False},
    "Mamba 2 2.7B": {"model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "state_size": 128,
                     "vocab_size": 50288, "expand": 2, "num_heads": 80, "head_dim": 64, "n_groups": 1,
                     "chunk_size": 256, "tie_word_embeddings": True},
}  # fmt: skip
COUNTS = {
    "Llama 3.1 8B": Count(8_030_261_248, None),
    "Llama 3.2 1B": Count(1_235_814_400, None),
    "Mistral 7B": Count(7_241_732_096, None),
    "Qwen2.5 0.5B": Count(494_032_768, None),
    "Qwen3 8B": Count(8_190_735_360, None),
    "Qwen1.5 MoE A2.7B": Count(14_315_784_192, 2_689_173_504),
    "Qwen3 30B A3B": Count(30_532_122_624, 3_353_032_704),
    "Mixtral 8x7B": Count(46_702_792_704, 12_879_925_248),
    "Gemma 2B": Count(2_506_172_416, None),
    "Gemma 2 2B": Count(2_614_341_888, None),
    "Gemma 3 1B": Count(999_885_952, None),
    "Phi-1.5": Count(1_418_270_720, None),
    "Phi-2": Count(2_779_683_840, None),
    "Phi-3 mini": Count(3_821_079_552, None),
    "Phi-3.5 MoE": Count(41_873_153_344, 6_640_999_744),
    "OLMo 1B": Count(1_176_764_416, None),
    "OLMo 2 7B": Count(7_298_617_344, None),
    "OLMo 3 7B": Count(7_298_011_136, None),
    "OLMoE 1B 7B": Count(6_919_161_856, 1_282_017_280),
    "Granite 3.1 2B": Count(2_533_531_648, None),
    "Granite 3.1 1B A400M": Count(1_334_628_352, 428_658_688),
    "SmolLM3 3B": Count(3_075_098_624, None),
    "Nemotron 4 Minitron 4B": Count(4_190_509_056, None),
    "Seed OSS 36B": Count(36_151_104_512, None),
    "EXAONE 4.0 1.2B": Count(1_279_391_488, None),
    "GLM-4 9B": Count(9_399_951_360, None),
    "GLM-4 9B 0414": Count(9_400_094_720, None),
    "GLM-4.5 Air": Count(106_852_245_504, 13_424_123_904),
    "DeepSeek-V2 Lite": Count(15_706_484_224, 2_661_150_208),
    "DeepSeek-V2": Count(235_741_434_880, 21_375_800_320),
    "DeepSeek-V3": Count(671_026_404_352, 37_552_282_624),
    "Kimi K2": Count(1_026_408_209_408, 32_861_477_888),
    "gpt-oss 20B": Count(20_914_757_184, 4_187_440_704),
    "gpt-oss 120B": Count(116_829_156_672, 5_711_982_912),
    "Llama 4 Scout, text": Count(107_769_861_120, 17_172_894_720),
    "Llama 4 Maverick, text": Count(400_711_848_960, 17_184_691_200),
    "StableLM 3B": Count(2_795_443_200, None),
    "StableLM 2 1.6B": Count(1_644_515_328, None),
    "StarCoder2 3B": Count(3_030_371_328, None),
    "Command R": Count(34_980_831_232, None),
    "Command R7B": Count(8_028_033_024, None),
    "Falcon 7B": Count(6_921_720_704, None),
    "Falcon 40B": Count(41_303_293_952, None),
    "Falcon RW 1B": Count(1_311_625_216, None),
    "BLOOM 560M": Count(559_214_592, None),
    "BLOOM": Count(176_247_271_424, None),
    "MPT 7B": Count(6_649_286_656, None),
    "GPT-J 6B": Count(6_050_882_784, None),
    "CodeGen 350M": Count(356_712_448, None),
    "SantaCoder": Count(1_124_886_528, None),
    "GPT-Neo 125M": Count(125_198_592, None),
    "GPT-NeoX 20B": Count(20_554_567_680, None),
    "Pythia 6.9B": Count(6_857_302_016, None),
    "OPT 125M": Count(125_239_296, None),
    "GPT-2": Count(124_439_808, None),
    "BERT base": Count(110_106_428, None),
    "RoBERTa base": Count(124_697_433, None),
    "XLM-R base": Count(278_295_186, None),
    "DistilBERT": Count(66_985_530, None),
    "ALBERT base": Count(11_221_680, None),
    "ELECTRA base": Count(109_483_009, None),
    "ELECTRA small": Count(13_549_057, None),
    "ModernBERT base": Count(149_655_232, None),
    "ViT B/16": Count(86_567_656, None),
    "T5 base": Count(222_903_552, None),
    # transformers 5.24 ties the output of these two, which checkpoint and paper do not.
    "T5 1.1 base": Count(247_577_856, None),
    "mT5 small": Count(300_176_768, None),
    "BART large": Count(406_291_456, None),
    "mBART large": Count(610_851_840, None),
    "Pegasus large": Count(568_699_904, None),
    "NLLB 600M": Count(615_073_792, None),
    "OPUS-MT en-de": Count(73_886_208, None),
    "Whisper tiny": Count(37_184_640, None),
    "Whisper large v3": Count(1_541_570_560, None),
    "Mamba 130M": Count(129_135_360, None),
    "Falcon Mamba 7B": Count(7_272_665_088, None),
    "Mamba 2 2.7B": Count(2_702_599_680, None),
}
