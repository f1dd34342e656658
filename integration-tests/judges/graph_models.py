"""The architectures that graph_exports.py exports, with the exporters and opsets for each.

Configurations are small, so that an export takes seconds and few MiB. Weights are random.
"""
import sys

# Architecture -> (function, variants). A variant is an exporter with an opset, and `*` where all sizes are fixed.
ARCHITECTURES = {}


def architecture(variants):
    def keep(make):
        name = make.__name__.rstrip("_").replace("__", ".")
        ARCHITECTURES[name] = (make, variants.split())
        return make

    return keep


class Export:
    """A module and what it is exported with. `dynamic` names the axes of inputs whose sizes stay open."""

    def __init__(self, module, inputs, dynamic=None, outputs=None):
        self.module, self.inputs, self.outputs = module, inputs, outputs
        self.dynamic = dynamic or {}


def image(size=224, batch=2):
    """Two pictures: exporters take a batch of one for a constant."""
    import torch

    return {"image": torch.rand(batch, 3, size, size)}


BATCH = {"image": {0: "batch"}}


def tokens(length=16, batch=2, vocabulary=512, mask=True, name="input_ids"):
    import torch

    found = {name: torch.randint(4, vocabulary, (batch, length))}
    if mask:
        found["attention_mask"] = torch.ones(batch, length, dtype=torch.int64)
    return found


def text(inputs):
    return {name: {0: "batch", 1: "sequence"} for name in inputs}


# -- torchvision ------------------------------------------------------------------------------------------------------


def vision(name, size=224, dynamic=True, **config):
    import torchvision

    module = getattr(torchvision.models, name)(weights=None, **config)
    return Export(module, image(size), BATCH if dynamic else None)


@architecture("torchscript11 torchscript17* dynamo18")
def resnet18():
    return vision("resnet18")


@architecture("torchscript13 dynamo18*")
def densenet121():
    return vision("densenet121")


@architecture("torchscript12* dynamo20")
def googlenet():
    return vision("googlenet", init_weights=False, aux_logits=False)


@architecture("torchscript17")
def inception_v3():
    return vision("inception_v3", size=299, init_weights=False, aux_logits=False)


@architecture("torchscript15 dynamo18*")
def shufflenet_v2_x0_5():
    return vision("shufflenet_v2_x0_5")


@architecture("torchscript14* dynamo18")
def mobilenet_v3_small():
    return vision("mobilenet_v3_small")


@architecture("torchscript13")
def squeezenet1_1():
    return vision("squeezenet1_1")


@architecture("torchscript16*")
def regnet_y_400mf():
    return vision("regnet_y_400mf")


@architecture("torchscript17* dynamo18*")
def swin_tv():
    import torchvision

    module = torchvision.models.SwinTransformer([4, 4], 32, [2, 2, 2], [2, 4, 8], [7, 7])
    return Export(module, image(224), BATCH)


@architecture("torchscript17*")
def vit_tv():
    import torchvision

    return Export(torchvision.models.VisionTransformer(224, 16, 4, 4, 128, 512), image(224), BATCH)


def pyramid():
    import torchvision

    backbone = torchvision.models.detection.backbone_utils
    return backbone.resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5)


def detector(module, size=320):
    import torch

    class Detector(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, image):
            found = self.inner([image])
            found = found[1][0] if isinstance(found, tuple) else found[0]
            return tuple(found[key] for key in ("boxes", "scores", "labels"))

    return Export(Detector(), {"image": torch.rand(3, size, size)}, outputs=["boxes", "scores", "labels"])


@architecture("torchscript11 torchscript17")
def fasterrcnn():
    import torchvision

    detection = torchvision.models.detection
    return detector(detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=8))


@architecture("torchscript13 torchscript17")
def retinanet():
    import torchvision

    return detector(torchvision.models.detection.RetinaNet(pyramid(), 8, min_size=320, max_size=320))


@architecture("torchscript16")
def fcos():
    import torchvision

    return detector(torchvision.models.detection.FCOS(pyramid(), 8, min_size=320, max_size=320))


@architecture("torchscript14")
def ssdlite():
    import torchvision

    detection = torchvision.models.detection
    return detector(detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=8))


def segmentation(name, size):
    import torch
    import torchvision

    inner = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=8)

    class Segmentation(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, image):
            return self.inner(image)["out"]

    return Export(Segmentation(), image(size), {"image": {0: "batch", 2: "height", 3: "width"}})


@architecture("torchscript11 dynamo18*")
def lraspp():
    return segmentation("lraspp_mobilenet_v3_large", 224)


@architecture("torchscript16* dynamo18")
def deeplabv3():
    return segmentation("deeplabv3_mobilenet_v3_large", 224)


@architecture("torchscript17*")
def s3d():
    import torch
    import torchvision

    module = torchvision.models.video.s3d(weights=None, num_classes=8)
    return Export(module, {"video": torch.rand(1, 3, 16, 224, 224)}, {"video": {0: "batch"}})


@architecture("torchscript17 dynamo18*")
def mvit():
    import torch
    import torchvision

    video = sys.modules["torchvision.models.video.mvit"]
    setting = [video.MSBlockConfig(1, 32, 64, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 4, 4]),
               video.MSBlockConfig(2, 64, 128, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 2, 2])]
    module = video.MViT((56, 56), 8, setting, residual_pool=True, residual_with_cls_embed=False,
                        rel_pos_embed=True, proj_after_attn=True, num_classes=8)
    return Export(module, {"video": torch.rand(1, 3, 8, 56, 56)}, {"video": {0: "batch"}})


@architecture("torchscript16* dynamo20*")
def raft():
    import torch
    import torchvision

    inner = torchvision.models.optical_flow.raft_small(weights=None)

    class Raft(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, first, second):
            return self.inner(first, second, num_flow_updates=2)[-1]

    return Export(Raft(), {"first": torch.rand(1, 3, 128, 128), "second": torch.rand(1, 3, 128, 128)})


# -- timm -------------------------------------------------------------------------------------------------------------


def pictures(name, variants, size=None, **config):
    def make():
        import timm

        module = timm.create_model(name, pretrained=False, num_classes=16, **config)
        return Export(module, image(size or module.default_cfg["input_size"][-1]), BATCH)

    make.__name__ = name.split(".")[0]
    architecture(variants)(make)


pictures("convnext_atto", "torchscript14 torchscript17* dynamo18 dynamo20*")
pictures("coatnet_pico_rw_224", "torchscript17 torchscript14* dynamo18*")
pictures("efficientnet_b0", "torchscript11 dynamo18")
pictures("tf_efficientnetv2_b0", "torchscript13 torchscript17* dynamo18")
pictures("mobilenetv4_conv_small", "torchscript17* dynamo18")
pictures("swin_tiny_patch4_window7_224", "torchscript14 dynamo18*", embed_dim=32, depths=(2, 2, 2, 2),
         num_heads=(1, 2, 4, 8))
pictures("deit_tiny_patch16_224", "torchscript14 torchscript17* dynamo18", depth=6)
pictures("maxvit_rmlp_pico_rw_256", "torchscript17* dynamo18*")
pictures("mobilevit_xxs", "torchscript16 dynamo18*")
pictures("levit_128s", "torchscript17* dynamo18")
pictures("xcit_nano_12_p16_224", "torchscript17 dynamo18*")
pictures("pvt_v2_b0", "torchscript13* dynamo18")
pictures("poolformer_s12", "torchscript17*")
pictures("edgenext_xx_small", "torchscript17 dynamo20*")
pictures("fastvit_t8", "torchscript17* dynamo18")
pictures("repvgg_a0", "torchscript13*")
pictures("mixer_s16_224", "torchscript15 dynamo18*")
pictures("crossvit_9_240", "torchscript17*")
pictures("gcvit_xxtiny", "torchscript17*")
pictures("nf_regnet_b0", "torchscript17* dynamo18*")
pictures("eva02_tiny_patch14_224", "torchscript17* dynamo18", depth=6)
pictures("hrnet_w18_small", "torchscript12* dynamo18*")
pictures("cait_xxs24_224", "torchscript17*", depth=6)
pictures("beit_base_patch16_224", "torchscript17 dynamo18*", depth=4, embed_dim=192, num_heads=3)
pictures("sequencer2d_s", "torchscript17*", layers=[1, 1, 2, 1], embed_dims=[64, 96, 96, 96])


# -- transformers -----------------------------------------------------------------------------------------------------


def hugging(model, config, inputs, keys, dynamic=None, **settings):
    """A transformers model whose outputs are the named ones."""
    import torch
    import transformers

    settings = {"use_cache": False, **settings} if settings.get("use_cache") is not False else settings
    made = getattr(transformers, config)(**settings) if isinstance(config, str) else config
    causal = "" if "CausalLM" in model or "LMHead" in model else "decoder_" if model == "WhisperModel" else None
    inner = getattr(transformers, model)(made)

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, *args):
            given = dict(zip(inputs, args))
            if causal is not None and torch.jit.is_tracing():
                # The older exporter fails on the masks of transformers 4.57; a mask of four axes is taken as it is.
                ids, key = given[f"{causal}input_ids"], f"{causal}attention_mask"
                allowed = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()[None, None]
                if key in given:
                    allowed = allowed & given[key][:, None, None, :].bool()
                given[key] = (1.0 - allowed.float()) * torch.finfo(torch.float32).min
            found = self.inner(**given)
            return tuple(found[key] for key in keys)

    return Export(Named(), inputs, text(inputs) if dynamic is None else dynamic, list(keys))


SMALL = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128,
         "vocab_size": 512}


@architecture("torchscript14 torchscript17* dynamo18* dynamo20*")
def bert():
    return hugging("BertModel", "BertConfig", tokens(), ["last_hidden_state", "pooler_output"], **SMALL)


@architecture("torchscript11 torchscript16 dynamo18*")
def bert_eager():
    return hugging("BertModel", "BertConfig", tokens(), ["last_hidden_state"], attn_implementation="eager", **SMALL)


@architecture("torchscript13 dynamo18*")
def distilbert():
    return hugging("DistilBertModel", "DistilBertConfig", tokens(), ["last_hidden_state"], dim=64, n_layers=4,
                   n_heads=4, hidden_dim=128, vocab_size=512, attn_implementation="eager")


@architecture("torchscript14 dynamo18*")
def albert():
    return hugging("AlbertModel", "AlbertConfig", tokens(), ["last_hidden_state"], embedding_size=32, **SMALL)


@architecture("torchscript16 dynamo18*")
def deberta_v2():
    return hugging("DebertaV2Model", "DebertaV2Config", tokens(), ["last_hidden_state"], relative_attention=True,
                   pos_att_type=["p2c", "c2p"], position_buckets=16, max_relative_positions=-1, **SMALL)


@architecture("torchscript15 torchscript17* dynamo18*")
def gpt2():
    return hugging("GPT2LMHeadModel", "GPT2Config", tokens(), ["logits"], n_embd=64, n_layer=4, n_head=4,
                   vocab_size=512)


@architecture("torchscript17 torchscript15* dynamo18* dynamo20*")
def llama():
    return hugging("LlamaForCausalLM", "LlamaConfig", tokens(), ["logits"], num_key_value_heads=2, **SMALL)


@architecture("torchscript17 dynamo18*")
def qwen2():
    return hugging("Qwen2ForCausalLM", "Qwen2Config", tokens(), ["logits"], num_key_value_heads=2, **SMALL)


@architecture("torchscript17* dynamo18*")
def gemma2():
    return hugging("Gemma2ForCausalLM", "Gemma2Config", tokens(), ["logits"], num_key_value_heads=2,
                   head_dim=16, **SMALL)


@architecture("torchscript14 dynamo18*")
def gpt_neox():
    return hugging("GPTNeoXForCausalLM", "GPTNeoXConfig", tokens(), ["logits"], **SMALL)


@architecture("torchscript14")
def bloom():
    return hugging("BloomForCausalLM", "BloomConfig", tokens(), ["logits"], hidden_size=64, n_layer=4,
                   n_head=4, vocab_size=512)


@architecture("torchscript14 dynamo18*")
def t5():
    inputs = {**tokens(), **tokens(8, mask=False, name="decoder_input_ids")}
    return hugging("T5ForConditionalGeneration", "T5Config", inputs, ["logits"], d_model=64, d_kv=16, d_ff=128,
                   num_layers=2, num_heads=4, vocab_size=512)


@architecture("torchscript14 dynamo18*")
def bart():
    inputs = {**tokens(), **tokens(8, mask=False, name="decoder_input_ids")}
    return hugging("BartModel", "BartConfig", inputs, ["last_hidden_state"], d_model=64, encoder_layers=2,
                   decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
                   decoder_ffn_dim=128, vocab_size=512)


def tower(**more):
    return {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, **more}


@architecture("torchscript14 torchscript17* dynamo18*")
def clip():
    import transformers

    # The last token of the vocabulary ends a text.
    config = transformers.CLIPConfig(text_config=tower(vocab_size=512, eos_token_id=511),
                                     vision_config=tower(image_size=64, patch_size=16), projection_dim=32)
    inputs = {**tokens(), "pixel_values": image(64)["image"]}
    inputs["input_ids"][:, -1] = 511
    dynamic = {**text(["input_ids", "attention_mask"]), "pixel_values": {0: "images"}}
    order = {key: inputs[key] for key in ("input_ids", "pixel_values", "attention_mask")}
    return hugging("CLIPModel", config, order, ["logits_per_image", "text_embeds", "image_embeds"], dynamic)


@architecture("torchscript14 dynamo18")
def vit():
    inputs = {"pixel_values": image(64)["image"]}
    return hugging("ViTModel", "ViTConfig", inputs, ["last_hidden_state"], {"pixel_values": {0: "batch"}},
                   **tower(image_size=64, patch_size=16))


@architecture("torchscript17 dynamo18*")
def dinov2():
    inputs = {"pixel_values": image(56)["image"]}
    return hugging("Dinov2Model", "Dinov2Config", inputs, ["last_hidden_state"], {"pixel_values": {0: "batch"}},
                   hidden_size=64, num_hidden_layers=4, num_attention_heads=4, image_size=56, patch_size=14)


@architecture("torchscript17 dynamo18*")
def whisper():
    import torch

    inputs = {"input_features": torch.rand(1, 16, 100), **tokens(8, 1, mask=False, name="decoder_input_ids")}
    dynamic = {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "sequence"}}
    return hugging("WhisperModel", "WhisperConfig", inputs, ["last_hidden_state"], dynamic, d_model=64,
                   encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                   encoder_ffn_dim=128,
                   decoder_ffn_dim=128, vocab_size=512, num_mel_bins=16, max_source_positions=50, pad_token_id=0,
                   bos_token_id=1, eos_token_id=2, decoder_start_token_id=3)


@architecture("torchscript14 dynamo18*")
def wav2vec2():
    import torch

    inputs = {"input_values": torch.rand(1, 4000)}
    return hugging("Wav2Vec2Model", "Wav2Vec2Config", inputs, ["last_hidden_state"], text(inputs),
                   conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **SMALL)


@architecture("torchscript13 torchscript17* dynamo18*")
def detr():
    import torch
    import transformers

    backbone = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1],
                                         out_features=["stage4"])
    config = transformers.DetrConfig(use_timm_backbone=False, backbone=None, backbone_config=backbone, d_model=64,
                                     use_pretrained_backbone=False, encoder_layers=2, decoder_layers=2,
                                     encoder_ffn_dim=128, decoder_ffn_dim=128, encoder_attention_heads=4,
                                     decoder_attention_heads=4, num_queries=10)
    inputs = {"pixel_values": image(128)["image"], "pixel_mask": torch.ones(2, 128, 128, dtype=int)}
    return hugging("DetrForObjectDetection", config, inputs, ["logits", "pred_boxes"],
                   {"pixel_values": {0: "batch"}, "pixel_mask": {0: "batch"}})


@architecture("torchscript14 dynamo18*")
def segformer():
    inputs = {"pixel_values": image(128)["image"]}
    return hugging("SegformerForSemanticSegmentation", "SegformerConfig", inputs, ["logits"],
                   {"pixel_values": {0: "batch"}}, hidden_sizes=[16, 32, 40, 64], depths=[1, 1, 1, 1],
                   decoder_hidden_size=32, num_labels=8)
