"""Small random models of transformers; each function returns a model and example
inputs for parc-from-torch."""
import torch
import transformers as hf
from torch.distributed.fsdp import fully_shard

SIZES = dict(vocab_size=256, hidden_size=32, intermediate_size=88, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)


def tokens():
    ids = torch.randint(0, 256, (4, 32))
    return dict(input_ids=ids, labels=ids.clone(), use_cache=False)


def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)), tokens()


def gpt2():
    config = hf.GPT2Config(vocab_size=256, n_positions=64, n_embd=32, n_layer=2, n_head=4,
                           resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return hf.GPT2LMHeadModel(config), tokens()


def bert():
    config = hf.BertConfig(vocab_size=256, hidden_size=32, intermediate_size=64,
                           num_hidden_layers=2, num_attention_heads=4,
                           max_position_embeddings=64, hidden_dropout_prob=0,
                           attention_probs_dropout_prob=0)
    return hf.BertForMaskedLM(config), tokens()


def units_of_child(model, mesh):
    """The child `model`, without the head, is a unit of its own."""
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model.model, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
