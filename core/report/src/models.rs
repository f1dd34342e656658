//! The models of a network side by side, so that short views tell of the worst and not of the first alone.

use crate::format::line;
use crate::sections::outputs;
use onnxd_proto::onnxd::{
    ModelSummary, Numerics, OutputNumerics, Quality, Quantization, QuantizedLayer, Report,
};

/// One model of a network, and what the report says of it.
#[derive(Clone, Copy)]
pub(crate) struct ModelPart<'a> {
    pub(crate) summary: Option<&'a ModelSummary>,
    pub(crate) quantization: Option<&'a Quantization>,
    pub(crate) numerics: Option<&'a Numerics>,
    is_only: bool,
}

/// All models of a report's network, the first one first.
pub(crate) fn models(report: &Report) -> Vec<ModelPart<'_>> {
    let first = ModelPart {
        summary: report.model.as_ref(),
        quantization: report.quantization.as_ref(),
        numerics: report.numerics.as_ref(),
        is_only: report.further.is_empty(),
    };
    let further = report.further.iter().map(|part| ModelPart {
        summary: part.model.as_ref(),
        quantization: part.quantization.as_ref(),
        numerics: part.numerics.as_ref(),
        is_only: false,
    });
    std::iter::once(first).chain(further).collect()
}

impl<'a> ModelPart<'a> {
    /// The model's file in the folder of the result.
    pub(crate) fn file(&self) -> &'a str {
        self.summary.map_or("", |model| model.file.as_str())
    }

    /// ` of decoder.onnx`; an only model needs no name.
    pub(crate) fn of_file(&self) -> String {
        if self.is_only { String::new() } else { format!(" of {}", line(self.file())) }
    }

    /// ` (decoder.onnx)`, behind a sentence.
    pub(crate) fn in_brackets(&self) -> String {
        if self.is_only { String::new() } else { format!(" ({})", line(self.file())) }
    }

    pub(crate) fn quality(&self) -> Option<&'a Quality> {
        self.quantization?.quality.as_ref()
    }
}

/// How near the outputs of quantized models are to float: the worst that was measured, and all that were not.
pub(crate) fn output_quality(models: &[ModelPart]) -> Vec<String> {
    let told = |(model, quality): (&ModelPart, &Quality)| outputs(quality) + &model.in_brackets();
    let all = || models.iter().filter_map(|model| Some((model, model.quality()?)));
    let measured = all().filter(|(_, quality)| quality.sqnr_db.is_some());
    let worst = measured.min_by(|a, b| a.1.worst_db.total_cmp(&b.1.worst_db));
    let unmeasured = all().filter(|(_, quality)| quality.sqnr_db.is_none());
    worst.into_iter().chain(unmeasured).map(told).collect()
}

/// The quantized layer that is farthest from float, with its ratio in dB.
pub(crate) fn worst_layer<'a>(
    models: &[ModelPart<'a>],
) -> Option<(ModelPart<'a>, &'a QuantizedLayer, f64)> {
    let layers = models.iter().flat_map(|model| {
        let layers = model.quantization.into_iter().flat_map(|q| &q.layers);
        layers.filter_map(|layer| Some((*model, layer, layer.sqnr_db?)))
    });
    layers.min_by(|a, b| a.2.total_cmp(&b.2))
}

/// All outputs that were compared with a reference.
pub(crate) fn compared_outputs<'a>(
    models: &[ModelPart<'a>],
) -> impl Iterator<Item = (ModelPart<'a>, &'a Numerics, &'a OutputNumerics)> {
    let numerics = models.iter().filter_map(|model| Some((*model, model.numerics?)));
    numerics
        .flat_map(|(model, numerics)| numerics.outputs.iter().map(move |o| (model, numerics, o)))
}

#[cfg(test)]
mod tests {
    use crate::head::head;
    use crate::receipt;
    use onnxd_proto::onnxd::{
        FileDigest, FileRole, ModelReport, ModelSummary, Numerics, OutputNumerics, Quality,
        Quantization, QuantizedLayer, Report, Verdict,
    };

    fn part(name: &str, db: Option<f64>, max_abs: f64) -> ModelReport {
        let opset = [(String::new(), 21)].into();
        let model = ModelSummary { file: format!("{name}.onnx"), opset, ..ModelSummary::default() };
        let layer = QuantizedLayer {
            name: format!("{name}.fc"),
            sqnr_db: db.map(|db| db + 1.0),
            ..QuantizedLayer::default()
        };
        let quality = Quality {
            sqnr_db: db,
            worst_db: db.unwrap_or_default(),
            worst: "y".into(),
            samples: 4,
            origin: "apart".into(),
            products: Some(2),
            quantized: 2,
            meant_for: format!("the processor of {name}"),
            next: db.map_or(String::new(), |db| format!("output `y` has {db:.1} dB.")),
            ..Quality::default()
        };
        let quantization = Quantization {
            format: "QDQ".into(),
            layers: vec![layer],
            quality: Some(quality),
            ..Quantization::default()
        };
        let output = OutputNumerics {
            output: "y".into(),
            max_abs,
            sqnr_db: 60.0 - max_abs,
            ..OutputNumerics::default()
        };
        let numerics = Numerics { outputs: vec![output], ..Numerics::default() };
        ModelReport {
            model: Some(model),
            quantization: Some(quantization),
            numerics: Some(numerics),
            ..ModelReport::default()
        }
    }

    fn report(parts: &[ModelReport]) -> Report {
        let (first, further) = parts.split_first().unwrap();
        let file = |part: &ModelReport| FileDigest {
            path: part.model.as_ref().unwrap().file.clone(),
            bytes: 1000,
            sha256: "ab".repeat(32),
            role: FileRole::Model.into(),
        };
        Report {
            verdict: Verdict::Succeeded.into(),
            outputs: parts.iter().map(file).collect(),
            model: first.model.clone(),
            quantization: first.quantization.clone(),
            numerics: first.numerics.clone(),
            further: further.to_vec(),
            ..Report::default()
        }
    }

    #[test]
    fn the_worst_model_is_told_wherever_it_stands() {
        let (good, bad) = (part("encoder", Some(40.0), 1.0), part("decoder", Some(12.0), 3.0));
        for parts in [[good.clone(), bad.clone()], [bad, good]] {
            let report = report(&parts);
            let told = receipt(&report);
            for words in [
                "against the reference: y of decoder.onnx differs by at most 3.0000, SQNR 57.0000 dB\n",
                "quantized to QDQ: outputs SQNR 12.0 dB on 4 held-out samples (decoder.onnx); \
                 worst layer decoder.fc of decoder.onnx, SQNR 13.0000 dB\n",
                "next: output `y` has 12.0 dB. (decoder.onnx)\n",
                "decoder.onnx, 1.0 kB, opset 21, sha256 abababababababab, for the processor of decoder",
                "encoder.onnx, 1.0 kB, opset 21, sha256 abababababababab, for the processor of encoder",
            ] {
                assert!(told.contains(words), "{words}: {told}");
            }
            let facts = head(&report).facts;
            let told = &facts.iter().find(|(key, _)| *key == "quality").unwrap().1;
            let words = "outputs SQNR 12.0 dB on 4 held-out samples (decoder.onnx); worst layer 13.0 dB \
                         against float (decoder.fc of decoder.onnx); 57.0 dB against the reference, outside \
                         the tolerance (output y of decoder.onnx)";
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn models_in_a_folder_are_known_by_their_names() {
        let mut report = report(&[part("encoder", None, 1.0), part("decoder", None, 1.0)]);
        report.outputs.iter_mut().for_each(|file| file.path = format!("export/{}", file.path));
        let told = receipt(&report);
        for words in ["export/encoder.onnx, 1.0 kB, opset 21,", "for the processor of decoder"] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn what_was_not_measured_of_one_model_is_told_beside_the_other() {
        let told =
            receipt(&report(&[part("encoder", Some(40.0), 1.0), part("decoder", None, 1.0)]));
        let words = "quantized to QDQ: outputs SQNR 40.0 dB on 4 held-out samples (encoder.onnx); outputs \
                     were not compared with float (decoder.onnx); worst layer encoder.fc of encoder.onnx";
        assert!(told.contains(words), "{told}");
    }

    #[test]
    fn a_model_that_nothing_became_integers_of_is_named() {
        let mut float = part("decoder", None, 1.0);
        let quantization = float.quantization.as_mut().unwrap();
        quantization.layers.clear();
        quantization.quality.as_mut().unwrap().quantized = 0;
        let told = receipt(&report(&[part("encoder", Some(40.0), 1.0), float.clone()]));
        assert!(told.contains("SQNR 41.0000 dB; nothing of decoder.onnx\n"), "{told}");
        let told = receipt(&report(&[float.clone(), float]));
        assert!(told.contains("quantized to QDQ: nothing\n"), "{told}");
    }

    #[test]
    fn an_only_model_has_no_name_in_what_is_told_of_it() {
        let told = receipt(&report(&[part("model", Some(40.0), 1.0)]));
        assert!(told.contains("worst layer model.fc, SQNR 41.0000 dB\n"), "{told}");
        assert!(told.contains("outputs SQNR 40.0 dB on 4 held-out samples; "), "{told}");
    }
}
