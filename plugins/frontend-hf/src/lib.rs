//! The front-end for checkpoints of Hugging Face, as a plugin. All of it is `core/hugging-face`, so that other plugins
//! can use that, too: a library that holds it exports this plugin no second time.

use onnxd_hugging_face::{HuggingFace, PARAMS};

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.frontend-hf",
    summary: "Reads checkpoints of Hugging Face: config.json with safetensors or pickles, and files of GGUF",
    components: [
        frontend("hf", "Hugging Face checkpoints"; "config.json", "adapter_config.json", "*.gguf"; declares [
            "is_source = true\n", PARAMS
        ]
            => || Box::new(HuggingFace)),
    ],
}
