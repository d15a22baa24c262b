"""Small random models of transformers for images, and with a recurrent state."""
import torch
import transformers as hf

from architectures import case
from architectures_text import VOCAB, causal, ids

CLASSES = 10


def images(size):
    def made():
        return dict(pixel_values=torch.randn(4, 3, size, size),
                    labels=torch.randint(0, CLASSES, (4,)))
    return made


VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=32,
           patch_size=8, num_labels=CLASSES)


@case(images(32), colwise=("*.intermediate.dense", "*.fc1"),
      rowwise=("*.layer.*.output.dense", "*.fc2"))
def vit():
    return hf.ViTForImageClassification(hf.ViTConfig(**VIT, intermediate_size=64))


@case(images(32), colwise=("*.fc1",), rowwise=("*.fc2",))
def dinov2():
    return hf.Dinov2ForImageClassification(hf.Dinov2Config(**VIT, mlp_ratio=2))


@case(images(64), colwise=("*.pwconv1",), rowwise=("*.pwconv2",))
def convnext():
    return hf.ConvNextForImageClassification(hf.ConvNextConfig(
        hidden_sizes=[16, 32], depths=[2, 2], num_stages=2, num_labels=CLASSES))


@case(images(32), colwise=("*.mlp.fc1",), rowwise=("*.mlp.fc2",))
def swin():
    return hf.SwinForImageClassification(hf.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
        window_size=4, num_labels=CLASSES))


@case(lambda: dict(input_ids=ids(), pixel_values=torch.randn(4, 3, 32, 32), return_loss=True),
      colwise=("*.fc1",), rowwise=("*.fc2",))
def clip():
    return hf.CLIPModel(hf.CLIPConfig(
        text_config=dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=64,
                         num_hidden_layers=2, num_attention_heads=4,
                         max_position_embeddings=64, eos_token_id=2),
        vision_config=dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                           num_attention_heads=4, image_size=32, patch_size=8),
        projection_dim=32))


@case(images(64), colwise=("classifier.1",), trains=True)
def resnet():
    return hf.ResNetForImageClassification(hf.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic",
        num_labels=CLASSES))


@case(causal, colwise=("lm_head",), shifts=True)
def mamba():
    return hf.MambaForCausalLM(hf.MambaConfig(
        vocab_size=VOCAB, hidden_size=32, state_size=8, num_hidden_layers=2))


@case(causal, colwise=("lm_head",), shifts=True)
def mamba2():
    return hf.Mamba2ForCausalLM(hf.Mamba2Config(
        vocab_size=VOCAB, hidden_size=32, state_size=8, num_hidden_layers=2, num_heads=8,
        head_dim=8, n_groups=2, chunk_size=8))
