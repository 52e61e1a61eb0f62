"""The configurations that fixtures are made of: every family that ships, small, with its own features on. `config` is
what both programs read; `cuts` are the cuts that the test runs beside the uncut step."""

SMALL = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
         "intermediate_size": 48, "vocab_size": 72, "max_position_embeddings": 64, "tie_word_embeddings": False}
GPT2 = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 32, "vocab_size": 72}
EXPERTS = [["--tp", "2"], ["--ep", "2", "--dp", "2"], ["--pp", "2"]]
MLA = {"q_lora_rank": 12, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6,
       "num_key_value_heads": 4}
DEEPSEEK = {**SMALL, **MLA, "num_hidden_layers": 3, "first_k_dense_replace": 1, "n_routed_experts": 8,
            "num_experts_per_tok": 4, "n_shared_experts": 1, "moe_intermediate_size": 16, "n_group": 4, "topk_group": 2,
            "routed_scaling_factor": 1.5, "rms_norm_eps": 1e-4}


def small(model_type, **changes):
    return {"model_type": model_type, **SMALL, **changes}


def rope(kind, **values):
    return {"rope_type": kind, "rope_theta": 10000.0, **values}


CASES = {
    "gpt2": {"config": {"model_type": "gpt2", **GPT2}},
    "gpt2-narrow-mlp": {"config": {"model_type": "gpt2", **GPT2, "n_inner": 40, "activation_function": "gelu",
                                   "layer_norm_epsilon": 1e-3, "scale_attn_weights": False}},
    "gpt-bigcode": {"config": {"model_type": "gpt_bigcode", **GPT2, "multi_query": True}},
    "gpt-bigcode-heads": {"config": {"model_type": "gpt_bigcode", **GPT2, "multi_query": False}},
    "gpt-neox": {"config": {"model_type": "gpt_neox", "hidden_size": 32, "num_attention_heads": 4,
                            "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 72, "rotary_pct": 0.5,
                            "max_position_embeddings": 64, "rotary_emb_base": 500, "tie_word_embeddings": False}},
    "gpt-neox-serial": {"config": {"model_type": "gpt_neox", "hidden_size": 32, "num_attention_heads": 4,
                                   "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 72,
                                   "use_parallel_residual": False, "attention_bias": False,
                                   "max_position_embeddings": 64, "tie_word_embeddings": False}},
    "falcon-7b": {"config": {"model_type": "falcon", "hidden_size": 32, "num_attention_heads": 4,
                             "num_hidden_layers": 2, "vocab_size": 72, "multi_query": True, "parallel_attn": True,
                             "bias": False, "alibi": False, "new_decoder_architecture": False}},
    "falcon-40b": {"config": {"model_type": "falcon", "hidden_size": 32, "num_attention_heads": 8, "num_kv_heads": 2,
                              "num_hidden_layers": 2, "vocab_size": 72, "bias": False, "alibi": False,
                              "new_decoder_architecture": True},
                   "count_cache": False},  # there keys are cached for every query head
    "falcon-serial": {"config": {"model_type": "falcon", "hidden_size": 32, "num_attention_heads": 4,
                                 "num_hidden_layers": 2, "vocab_size": 72, "multi_query": False,
                                 "parallel_attn": False, "bias": True, "alibi": False,
                                 "new_decoder_architecture": False}},
    "llama3": {"config": small("llama", rope_parameters=rope("llama3", factor=8.0, low_freq_factor=1.0,
                                                             high_freq_factor=4.0, rope_theta=500.0,
                                                             original_max_position_embeddings=16))},
    "llama-biases": {"config": small("llama", attention_bias=True, mlp_bias=True, head_dim=12, num_key_value_heads=4,
                                     rope_parameters=rope("linear", factor=4.0))},
    "llama-dynamic": {"config": small("llama", max_position_embeddings=8,
                                      rope_parameters=rope("dynamic", factor=4.0, original_max_position_embeddings=4))},
    "llama-yarn": {"config": small("llama", tie_word_embeddings=True,
                                   rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16))},
    "mistral-window": {"config": small("mistral", sliding_window=5, head_dim=8)},
    "ministral3": {"config": small("ministral3", head_dim=8, sliding_window=None,
                                   rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16,
                                                        llama_4_scaling_beta=0.1))},
    "mixtral": {"config": small("mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
                "cuts": EXPERTS},
    "qwen2": {"config": small("qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=1)},
    "qwen2-moe": {"config": small("qwen2_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                  shared_expert_intermediate_size=24, norm_topk_prob=False, decoder_sparse_step=1,
                                  mlp_only_layers=[0], qkv_bias=False), "cuts": EXPERTS},
    "qwen2-moe-biases": {"config": small("qwen2_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                         shared_expert_intermediate_size=24, norm_topk_prob=True,
                                         decoder_sparse_step=2), "cuts": EXPERTS},
    "qwen3": {"config": small("qwen3", head_dim=16)},
    "qwen3-moe": {"config": small("qwen3_moe", head_dim=16, num_experts=4, num_experts_per_tok=2,
                                  moe_intermediate_size=16, norm_topk_prob=True, decoder_sparse_step=1),
                  "cuts": EXPERTS},
    "phi3": {"config": small("phi3", sliding_window=7, pad_token_id=0, partial_rotary_factor=0.5)},
    "gemma": {"config": small("gemma", head_dim=12, tie_word_embeddings=True)},
    "gemma2": {"config": small("gemma2", head_dim=12, sliding_window=5, query_pre_attn_scalar=20,
                               attn_logit_softcapping=3.0, final_logit_softcapping=2.0, tie_word_embeddings=True)},
    "gemma3": {"config": small("gemma3_text", num_hidden_layers=4, head_dim=12, sliding_window=5,
                               query_pre_attn_scalar=20, tie_word_embeddings=True,
                               layer_types=["sliding_attention", "sliding_attention", "sliding_attention",
                                            "full_attention"],
                               rope_parameters={"full_attention": rope("linear", factor=8.0, rope_theta=1000.0),
                                                "sliding_attention": rope("default", rope_theta=100.0)})},
    "deepseek-v2": {"config": {"model_type": "deepseek_v2", **DEEPSEEK, "topk_method": "group_limited_greedy",
                               "attention_bias": True, "moe_layer_freq": 1, "norm_topk_prob": True,
                               "rope_parameters": rope("yarn", factor=4.0, mscale=0.7, mscale_all_dim=0.7,
                                                       original_max_position_embeddings=16)}, "cuts": EXPERTS},
    "deepseek-v2-lite": {"config": {"model_type": "deepseek_v2", **DEEPSEEK, "q_lora_rank": None, "n_group": 1,
                                    "topk_group": 1, "topk_method": "greedy"}, "cuts": EXPERTS},
    "deepseek-v3": {"config": {"model_type": "deepseek_v3", **DEEPSEEK, "norm_topk_prob": True,
                               "rope_parameters": rope("yarn", factor=4.0, mscale=1.0, mscale_all_dim=1.0,
                                                       original_max_position_embeddings=16)}, "cuts": EXPERTS},
    "llama4": {"config": small("llama4_text", head_dim=8, num_hidden_layers=4, intermediate_size=16,
                               intermediate_size_mlp=40, num_local_experts=4, num_experts_per_tok=2,
                               interleave_moe_layer_step=2, use_qk_norm=False, attention_chunk_size=64,
                               attn_temperature_tuning=False, rope_parameters=rope("default", rope_theta=500.0)),
               "cuts": EXPERTS, "count_flops": False},  # there every expert computes every token
    "vit": {"config": {"model_type": "vit", "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2,
                       "intermediate_size": 48, "image_size": 12, "patch_size": 4, "num_channels": 3,
                       "num_labels": 10, "layer_norm_eps": 1e-6}},
    "clip": {"config": {"embed_dim": 20, "vision_cfg": {"layers": 2, "width": 32, "head_width": 8, "mlp_ratio": 2.0,
                                                        "image_size": 12, "patch_size": 4}}},
    "vit-22b": {"config": {"model_type": "vit", "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2,
                           "intermediate_size": 48, "image_size": 12, "patch_size": 4, "num_labels": 10,
                           "qkv_bias": False, "parallel_block": True, "qk_norm": True, "norm_bias": False,
                           "layer_norm_eps": 1e-6}},
    "yolo26": {"config": {"model_type": "yolo26", "depth_multiple": 0.5, "width_multiple": 0.125, "max_channels": 1024,
                          "nc": 5, "imgsz": 128}, "cuts": []},
}
SAMPLES, SEQ, SEED = 2, 12, 7
