"""Small random language models of transformers."""
import torch
import transformers as hf

from architectures import case

VOCAB, BATCH, SEQ = 256, 4, 32
SIZES = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=88, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             pad_token_id=None, bos_token_id=None, eos_token_id=None)
ENCODER = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
               num_attention_heads=4, max_position_embeddings=64)
SWIGLU = dict(colwise=("*.mlp.gate_proj", "*.mlp.up_proj", "*.q_proj", "*.k_proj", "*.v_proj"),
              rowwise=("*.mlp.down_proj", "*.o_proj"), shifts=True)
EXPERTS = dict(colwise=("*.q_proj", "*.k_proj", "*.v_proj"), rowwise=("*.o_proj",), shifts=True,
               steps=20)
BERT = dict(colwise=("*.self.query", "*.self.key", "*.self.value", "*.intermediate.dense"),
            rowwise=("*.attention.output.dense", "*.layer.*.output.dense"))


def ids():
    return torch.randint(0, VOCAB, (BATCH, SEQ))


def causal():
    """Tokens, and labels that the model shifts."""
    return dict(input_ids=ids(), labels=ids(), use_cache=False)


def masked():
    """Tokens, and labels of some of them; the others have no loss."""
    labels = ids()
    labels[torch.rand(BATCH, SEQ) < 0.5] = -100
    return dict(input_ids=ids(), labels=labels)


def pairs():
    """The tokens of an encoder, and labels of the decoder."""
    return dict(input_ids=ids(), labels=torch.randint(2, VOCAB, (BATCH, SEQ)))


@case(causal, **SWIGLU)
def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES))


@case(causal, **SWIGLU)
def llama31():
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, rope_parameters=dict(
        rope_type="llama3", rope_theta=1e4, factor=8.0, low_freq_factor=1.0,
        high_freq_factor=4.0, original_max_position_embeddings=16)))


@case(causal, **SWIGLU)
def qwen2():
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**SIZES))


@case(causal, **SWIGLU)
def qwen3():
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZES, head_dim=16))


@case(causal, **SWIGLU)
def mistral():
    return hf.MistralForCausalLM(hf.MistralConfig(**SIZES, sliding_window=8))


@case(causal, **SWIGLU)
def gemma2():
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**SIZES, head_dim=16, sliding_window=8,
                                                attn_implementation="eager"))


@case(causal, **SWIGLU)
def gemma3():
    sizes = SIZES | dict(num_hidden_layers=6)
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**sizes, head_dim=16, sliding_window=8))


@case(causal, colwise=("*.o_proj_none",), rowwise=("*.mlp.down_proj",), shifts=True)
def phi3():
    return hf.Phi3ForCausalLM(hf.Phi3Config(**SIZES))


@case(causal, **SWIGLU)
def olmo2():
    return hf.Olmo2ForCausalLM(hf.Olmo2Config(**SIZES))


@case(causal, colwise=("*.mlp.c_fc",), rowwise=("*.mlp.c_proj",), shifts=True)
def gpt2():
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=32,
                                            n_layer=2, n_head=4))


@case(causal, colwise=("*.dense_h_to_4h",), rowwise=("*.dense_4h_to_h",), shifts=True)
def gpt_neox():
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**ENCODER))


@case(causal, colwise=("*.fc_in", "*.q_proj", "*.k_proj", "*.v_proj"),
      rowwise=("*.fc_out", "*.out_proj"), shifts=True)
def gptj():
    return hf.GPTJForCausalLM(hf.GPTJConfig(vocab_size=VOCAB, n_positions=64, n_embd=32,
                                            n_layer=2, n_head=4, rotary_dim=4))


@case(causal, colwise=("*.dense_h_to_4h",), rowwise=("*.dense_4h_to_h",), shifts=True)
def bloom():
    return hf.BloomForCausalLM(hf.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2,
                                              n_head=4))


@case(causal, colwise=("*.ffn.up_proj",), rowwise=("*.ffn.down_proj",), shifts=True)
def mpt():
    return hf.MptForCausalLM(hf.MptConfig(vocab_size=VOCAB, d_model=32, n_layers=2, n_heads=4,
                                          max_seq_len=64))


@case(causal, **EXPERTS)
def mixtral():
    return hf.MixtralForCausalLM(hf.MixtralConfig(**SIZES, num_local_experts=8,
                                                  num_experts_per_tok=2))


@case(causal, **EXPERTS)
def qwen3_moe():
    return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
        **SIZES, head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24,
        norm_topk_prob=True))


@case(causal, colwise=("*.q_b_proj", "*.kv_b_proj"), rowwise=("*.o_proj",), shifts=True, steps=20)
def deepseek_v3():
    """A dense layer and two with experts: 2 of 32 in 2 of 8 groups, and a shared one."""
    sizes = SIZES | dict(num_hidden_layers=3, num_key_value_heads=4)
    model = hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(
        **sizes, first_k_dense_replace=1, moe_intermediate_size=24, n_routed_experts=32,
        num_experts_per_tok=2, n_group=8, topk_group=2, n_shared_experts=1, q_lora_rank=24,
        kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16))
    for name, x in model.named_buffers():
        if name.endswith("correction_bias"):
            x.normal_(std=0.02)
    return model


@case(causal, **EXPERTS)
def gpt_oss():
    """Sinks, alternating windows, and a clamp that changes numbers."""
    sizes = SIZES | dict(intermediate_size=24)
    return hf.GptOssForCausalLM(hf.GptOssConfig(
        **sizes, head_dim=16, num_local_experts=8, num_experts_per_tok=2, sliding_window=8,
        swiglu_limit=0.02, rope_parameters=dict(
            rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_slow=0.1, beta_fast=32.0,
            truncate=False, original_max_position_embeddings=16)))


@case(masked, **BERT)
def bert():
    return hf.BertForMaskedLM(hf.BertConfig(**ENCODER))


@case(masked, **BERT)
def roberta():
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**ENCODER))


@case(masked, colwise=("*.q_lin", "*.k_lin", "*.v_lin", "*.lin1"),
      rowwise=("*.out_lin", "*.lin2"))
def distilbert():
    return hf.DistilBertForMaskedLM(hf.DistilBertConfig(
        vocab_size=VOCAB, dim=32, hidden_dim=64, n_layers=2, n_heads=4,
        max_position_embeddings=64))


@case(masked)
def modernbert():
    return hf.ModernBertForMaskedLM(hf.ModernBertConfig(
        **(ENCODER | dict(num_hidden_layers=4)), local_attention=16, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2))


@case(masked, colwise=("*.intermediate.dense",), rowwise=("*.layer.*.output.dense",))
def deberta_v2():
    return hf.DebertaV2ForMaskedLM(hf.DebertaV2Config(
        **ENCODER, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=16,
        norm_rel_ebd="layer_norm", share_att_key=True, type_vocab_size=0))


@case(pairs, colwise=("*.q", "*.k", "*.v", "*.wi"), rowwise=("*.o", "*.wo"))
def t5():
    return hf.T5ForConditionalGeneration(hf.T5Config(
        vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0))


@case(pairs, colwise=("*.q_proj", "*.k_proj", "*.v_proj", "*.fc1"),
      rowwise=("*.out_proj", "*.fc2"))
def bart():
    return hf.BartForConditionalGeneration(hf.BartConfig(
        vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_position_embeddings=64))
