// Written by tests/generated.rs.

impl Measured for crate::onnxd::Diagnostic {
    const SHAPE: Shape = Shape {
        name: "Diagnostic",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // code
            (2, FieldKind::Text), // class
            (3, FieldKind::Text), // message
            (4, FieldKind::Text), // layer
            (5, FieldKind::Text), // layer_kind
            (6, FieldKind::Text), // place
            (7, FieldKind::Text), // help
            (8, FieldKind::Text), // severity
        ],
    };
}

impl Measured for crate::onnxd::Diagnostics {
    const SHAPE: Shape = Shape {
        name: "Diagnostics",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // items
        ],
    };
}

impl Measured for crate::onnxd::InputFile {
    const SHAPE: Shape = Shape {
        name: "InputFile",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // path
            (2, FieldKind::Text), // name
            (3, FieldKind::Number), // bytes
            (4, FieldKind::Text), // sha256
        ],
    };
}

impl Measured for crate::onnxd::FileDigest {
    const SHAPE: Shape = Shape {
        name: "FileDigest",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // path
            (2, FieldKind::Number), // bytes
            (3, FieldKind::Text), // sha256
            (5, FieldKind::Number), // role
        ],
    };
}

impl Measured for crate::onnxd::Declined {
    const SHAPE: Shape = Shape {
        name: "Declined",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // frontend
            (2, FieldKind::Text), // reason
        ],
    };
}

impl Measured for crate::onnxd::Recognition {
    const SHAPE: Shape = Shape {
        name: "Recognition",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // frontend
            (2, FieldKind::Text), // plugin
            (3, FieldKind::Text), // reason
            (4, FieldKind::Messages(&<crate::onnxd::Declined as Measured>::SHAPE)), // declined
        ],
    };
}

impl Measured for crate::onnxd::Param {
    const SHAPE: Shape = Shape {
        name: "Param",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // key
            (2, FieldKind::Text), // value
            (3, FieldKind::Text), // origin
        ],
    };
}

impl Measured for crate::onnxd::Component {
    const SHAPE: Shape = Shape {
        name: "Component",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // id
            (2, FieldKind::Text), // version
            (3, FieldKind::Text), // sha256
        ],
    };
}

impl Measured for crate::onnxd::ValueSummary {
    const SHAPE: Shape = Shape {
        name: "ValueSummary",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // name
            (2, FieldKind::Text), // type
        ],
    };
}

impl Measured for crate::onnxd::OpCount {
    const SHAPE: Shape = Shape {
        name: "OpCount",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // op
            (2, FieldKind::Number), // source
            (3, FieldKind::Number), // after_passes
            (4, FieldKind::Number), // final
        ],
    };
}

impl Measured for crate::onnxd::State {
    const SHAPE: Shape = Shape {
        name: "State",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // input
            (2, FieldKind::Text), // output
        ],
    };
}

impl Measured for crate::onnxd::ModelSummary {
    const SHAPE: Shape = Shape {
        name: "ModelSummary",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // ir_version
            (2, FieldKind::Map(&Shape { name: "opset", bytes: size_of::<(String, i64)>(), fields: &[(1, FieldKind::Text), (2, FieldKind::Number)] })), // opset
            (3, FieldKind::Messages(&<crate::onnxd::ValueSummary as Measured>::SHAPE)), // inputs
            (4, FieldKind::Messages(&<crate::onnxd::ValueSummary as Measured>::SHAPE)), // outputs
            (5, FieldKind::Messages(&<crate::onnxd::OpCount as Measured>::SHAPE)), // op_counts
            (6, FieldKind::Number), // parameters
            (7, FieldKind::Number), // bytes
            (8, FieldKind::Messages(&<crate::onnxd::State as Measured>::SHAPE)), // states
            (9, FieldKind::Number), // lowered_from
            (10, FieldKind::Text), // file
        ],
    };
}

impl Measured for crate::onnxd::Stage {
    const SHAPE: Shape = Shape {
        name: "Stage",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // name
            (2, FieldKind::Number), // seconds
            (3, FieldKind::Number), // peak_rss_bytes
        ],
    };
}

impl Measured for crate::onnxd::Skip {
    const SHAPE: Shape = Shape {
        name: "Skip",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // at
            (2, FieldKind::Text), // reason
        ],
    };
}

impl Measured for crate::onnxd::Pass {
    const SHAPE: Shape = Shape {
        name: "Pass",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // name
            (2, FieldKind::Number), // rewrites
            (3, FieldKind::Number), // seconds
            (4, FieldKind::Messages(&<crate::onnxd::Skip as Measured>::SHAPE)), // skipped
            (5, FieldKind::Texts), // notes
        ],
    };
}

impl Measured for crate::onnxd::PassComparison {
    const SHAPE: Shape = Shape {
        name: "PassComparison",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Texts), // passes
            (2, FieldKind::Text), // plugin
            (3, FieldKind::Number), // unchanged
            (4, FieldKind::Number), // equal
            (5, FieldKind::Number), // different
            (6, FieldKind::Number), // not_compared
            (7, FieldKind::Text), // worst
            (8, FieldKind::Number), // worst_sqnr_db
            (9, FieldKind::Number), // worst_max_abs
            (10, FieldKind::Messages(&<crate::onnxd::Skip as Measured>::SHAPE)), // reasons
        ],
    };
}

impl Measured for crate::onnxd::QuantizedTensor {
    const SHAPE: Shape = Shape {
        name: "QuantizedTensor",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // name
            (2, FieldKind::Text), // element_type
            (3, FieldKind::Numbers { held: size_of::<f64>(), encoded: Some(8) }), // scales
            (4, FieldKind::Numbers { held: size_of::<i64>(), encoded: None }), // zero_points
            (5, FieldKind::Number), // min
            (6, FieldKind::Number), // max
            (7, FieldKind::Text), // method
            (8, FieldKind::Number), // seen_min
            (9, FieldKind::Number), // seen_max
            (10, FieldKind::Number), // clipped
            (11, FieldKind::Message(&<crate::onnxd::Counts as Measured>::SHAPE)), // counts
        ],
    };
}

impl Measured for crate::onnxd::Counts {
    const SHAPE: Shape = Shape {
        name: "Counts",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // low
            (2, FieldKind::Number), // high
            (3, FieldKind::Numbers { held: size_of::<u64>(), encoded: None }), // counts
        ],
    };
}

impl Measured for crate::onnxd::Attempt {
    const SHAPE: Shape = Shape {
        name: "Attempt",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // what
            (2, FieldKind::Number), // sqnr_db
            (3, FieldKind::Number), // chosen
        ],
    };
}

impl Measured for crate::onnxd::QuantizedLayer {
    const SHAPE: Shape = Shape {
        name: "QuantizedLayer",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // name
            (2, FieldKind::Text), // op
            (3, FieldKind::Text), // rescaling
            (4, FieldKind::Number), // sqnr_db
            (5, FieldKind::Text), // output
            (6, FieldKind::Message(&<crate::onnxd::Accumulator as Measured>::SHAPE)), // accumulator
        ],
    };
}

impl Measured for crate::onnxd::Accumulator {
    const SHAPE: Shape = Shape {
        name: "Accumulator",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // max
            (2, FieldKind::Number), // bits
            (3, FieldKind::Number), // bits_held
        ],
    };
}

impl Measured for crate::onnxd::Quality {
    const SHAPE: Shape = Shape {
        name: "Quality",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // sqnr_db
            (2, FieldKind::Number), // worst_db
            (3, FieldKind::Text), // worst
            (4, FieldKind::Number), // outputs
            (5, FieldKind::Number), // samples
            (6, FieldKind::Text), // origin
            (7, FieldKind::Text), // unmeasured
            (8, FieldKind::Number), // top1_loss
            (9, FieldKind::Number), // products
            (10, FieldKind::Number), // quantized
            (11, FieldKind::Number), // weights
            (12, FieldKind::Number), // not_finite
            (13, FieldKind::Number), // constant
            (14, FieldKind::Number), // sqnr_db_floor
            (15, FieldKind::Number), // sqnr_db_min
            (16, FieldKind::Number), // top1_loss_max
            (17, FieldKind::Text), // meant_for
            (18, FieldKind::Text), // not_finite_at
            (19, FieldKind::Messages(&<crate::onnxd::Remedy as Measured>::SHAPE)), // remedies
            (20, FieldKind::Number), // nearest_db
            (21, FieldKind::Text), // next
            (22, FieldKind::Number), // error_db
        ],
    };
}

impl Measured for crate::onnxd::Remedy {
    const SHAPE: Shape = Shape {
        name: "Remedy",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // params
            (2, FieldKind::Number), // gain_db
            (3, FieldKind::Number), // bytes
        ],
    };
}

impl Measured for crate::onnxd::Quantization {
    const SHAPE: Shape = Shape {
        name: "Quantization",
        bytes: size_of::<Self>(),
        fields: &[
            (3, FieldKind::Messages(&<crate::onnxd::QuantizedTensor as Measured>::SHAPE)), // tensors
            (4, FieldKind::Messages(&<crate::onnxd::QuantizedLayer as Measured>::SHAPE)), // layers
            (5, FieldKind::Messages(&<crate::onnxd::Skip as Measured>::SHAPE)), // left_in_float
            (6, FieldKind::Number), // samples
            (7, FieldKind::Number), // compared
            (8, FieldKind::Text), // statistics
            (9, FieldKind::Number), // random_samples
            (10, FieldKind::Messages(&<crate::onnxd::Attempt as Measured>::SHAPE)), // tried
            (11, FieldKind::Message(&<crate::onnxd::Quality as Measured>::SHAPE)), // quality
            (16, FieldKind::Text), // format
            (17, FieldKind::Text), // quantizer
            (18, FieldKind::Text), // plugin
        ],
    };
}

impl Measured for crate::onnxd::OutputNumerics {
    const SHAPE: Shape = Shape {
        name: "OutputNumerics",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // output
            (2, FieldKind::Number), // max_abs
            (3, FieldKind::Number), // mean_abs
            (4, FieldKind::Number), // cosine
            (5, FieldKind::Number), // sqnr_db
            (6, FieldKind::Number), // within
        ],
    };
}

impl Measured for crate::onnxd::Numerics {
    const SHAPE: Shape = Shape {
        name: "Numerics",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // engine
            (2, FieldKind::Number), // tolerance_abs
            (3, FieldKind::Number), // tolerance_rel
            (4, FieldKind::Messages(&<crate::onnxd::OutputNumerics as Measured>::SHAPE)), // outputs
            (5, FieldKind::Number), // top1_agreement
            (6, FieldKind::Text), // inputs
        ],
    };
}

impl Measured for crate::onnxd::PluginLine {
    const SHAPE: Shape = Shape {
        name: "PluginLine",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // plugin
            (2, FieldKind::Text), // level
            (3, FieldKind::Text), // target
            (4, FieldKind::Text), // text
        ],
    };
}

impl Measured for crate::onnxd::Versions {
    const SHAPE: Shape = Shape {
        name: "Versions",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // onnxd
            (2, FieldKind::Messages(&<crate::onnxd::Component as Measured>::SHAPE)), // plugins
        ],
    };
}

impl Measured for crate::onnxd::ModelReport {
    const SHAPE: Shape = Shape {
        name: "ModelReport",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Message(&<crate::onnxd::ModelSummary as Measured>::SHAPE)), // model
            (2, FieldKind::Messages(&<crate::onnxd::Pass as Measured>::SHAPE)), // passes
            (3, FieldKind::Messages(&<crate::onnxd::PassComparison as Measured>::SHAPE)), // comparisons
            (4, FieldKind::Message(&<crate::onnxd::Quantization as Measured>::SHAPE)), // quantization
            (5, FieldKind::Message(&<crate::onnxd::Numerics as Measured>::SHAPE)), // numerics
            (6, FieldKind::Texts), // metadata
        ],
    };
}

impl Measured for crate::onnxd::Report {
    const SHAPE: Shape = Shape {
        name: "Report",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // schema
            (2, FieldKind::Text), // job
            (3, FieldKind::Text), // name
            (5, FieldKind::Text), // summary
            (6, FieldKind::Message(&<crate::onnxd::Recognition as Measured>::SHAPE)), // recognition
            (7, FieldKind::Messages(&<crate::onnxd::Param as Measured>::SHAPE)), // params
            (10, FieldKind::Messages(&<crate::onnxd::FileDigest as Measured>::SHAPE)), // source
            (11, FieldKind::Messages(&<crate::onnxd::FileDigest as Measured>::SHAPE)), // outputs
            (12, FieldKind::Message(&<crate::onnxd::ModelSummary as Measured>::SHAPE)), // model
            (13, FieldKind::Messages(&<crate::onnxd::Stage as Measured>::SHAPE)), // stages
            (14, FieldKind::Messages(&<crate::onnxd::Pass as Measured>::SHAPE)), // passes
            (15, FieldKind::Message(&<crate::onnxd::Numerics as Measured>::SHAPE)), // numerics
            (16, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // diagnostics
            (17, FieldKind::Number), // attempt
            (18, FieldKind::Texts), // metadata
            (19, FieldKind::Message(&<crate::onnxd::Quantization as Measured>::SHAPE)), // quantization
            (30, FieldKind::Messages(&<crate::onnxd::PluginLine as Measured>::SHAPE)), // plugin_log
            (31, FieldKind::Number), // plugin_log_dropped
            (32, FieldKind::Message(&<crate::onnxd::Versions as Measured>::SHAPE)), // versions
            (33, FieldKind::Messages(&<crate::onnxd::PassComparison as Measured>::SHAPE)), // comparisons
            (34, FieldKind::Number), // verdict
            (35, FieldKind::Messages(&<crate::onnxd::ModelReport as Measured>::SHAPE)), // further
        ],
    };
}

impl Measured for crate::onnxd::SubmissionFile {
    const SHAPE: Shape = Shape {
        name: "SubmissionFile",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // path
            (2, FieldKind::Number), // bytes
        ],
    };
}

impl Measured for crate::onnxd::Submission {
    const SHAPE: Shape = Shape {
        name: "Submission",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Messages(&<crate::onnxd::SubmissionFile as Measured>::SHAPE)), // files
            (2, FieldKind::Text), // network
            (3, FieldKind::Text), // params_json
            (4, FieldKind::Texts), // lowered
        ],
    };
}

impl Measured for crate::onnxd::Need {
    const SHAPE: Shape = Shape {
        name: "Need",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // what
            (2, FieldKind::Text), // path
            (3, FieldKind::Number), // found
            (4, FieldKind::Texts), // found_as
        ],
    };
}

impl Measured for crate::onnxd::Probe {
    const SHAPE: Shape = Shape {
        name: "Probe",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // level
            (2, FieldKind::Text), // reason
            (3, FieldKind::Messages(&<crate::onnxd::Need as Measured>::SHAPE)), // needs
            (6, FieldKind::Texts), // facts
        ],
    };
}

impl Measured for crate::onnxd::ParamsRead {
    const SHAPE: Shape = Shape {
        name: "ParamsRead",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Texts), // keys
            (2, FieldKind::Messages(&<crate::onnxd::IdleParam as Measured>::SHAPE)), // idle
        ],
    };
}

impl Measured for crate::onnxd::IdleParam {
    const SHAPE: Shape = Shape {
        name: "IdleParam",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // key
            (2, FieldKind::Text), // why
        ],
    };
}

impl Measured for crate::onnxd::PassLog {
    const SHAPE: Shape = Shape {
        name: "PassLog",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Messages(&<crate::onnxd::Pass as Measured>::SHAPE)), // passes
            (2, FieldKind::Message(&<crate::onnxd::ParamsRead as Measured>::SHAPE)), // params_read
            (3, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
        ],
    };
}

impl Measured for crate::onnxd::QuantizeLog {
    const SHAPE: Shape = Shape {
        name: "QuantizeLog",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
            (2, FieldKind::Map(&Shape { name: "metadata", bytes: size_of::<(String, String)>(), fields: &[(1, FieldKind::Text), (2, FieldKind::Text)] })), // metadata
            (15, FieldKind::Message(&<crate::onnxd::ParamsRead as Measured>::SHAPE)), // params_read
        ],
    };
}

impl Measured for crate::onnxd::ImportLog {
    const SHAPE: Shape = Shape {
        name: "ImportLog",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
            (2, FieldKind::Map(&Shape { name: "metadata", bytes: size_of::<(String, String)>(), fields: &[(1, FieldKind::Text), (2, FieldKind::Text)] })), // metadata
            (3, FieldKind::Message(&<crate::onnxd::ParamsRead as Measured>::SHAPE)), // params_read
            (4, FieldKind::Messages(&<crate::onnxd::State as Measured>::SHAPE)), // states
            (5, FieldKind::Text), // name
            (6, FieldKind::Messages(&<crate::onnxd::NamedGraph as Measured>::SHAPE)), // further
        ],
    };
}

impl Measured for crate::onnxd::NamedGraph {
    const SHAPE: Shape = Shape {
        name: "NamedGraph",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // name
            (2, FieldKind::Text), // graph
        ],
    };
}

impl Measured for crate::onnxd::PluginComponent {
    const SHAPE: Shape = Shape {
        name: "PluginComponent",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // kind
            (2, FieldKind::Text), // id
            (3, FieldKind::Text), // summary
            (4, FieldKind::Texts), // globs
        ],
    };
}

impl Measured for crate::onnxd::PluginInfo {
    const SHAPE: Shape = Shape {
        name: "PluginInfo",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // path
            (2, FieldKind::Text), // sha256
            (3, FieldKind::Text), // id
            (4, FieldKind::Text), // version
            (5, FieldKind::Number), // abi_major
            (6, FieldKind::Number), // abi_minor
            (7, FieldKind::Text), // descriptor
            (8, FieldKind::Messages(&<crate::onnxd::PluginComponent as Measured>::SHAPE)), // components
        ],
    };
}

impl Measured for crate::onnxd::Limits {
    const SHAPE: Shape = Shape {
        name: "Limits",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // memory_bytes
            (2, FieldKind::Number), // cpu_seconds
            (3, FieldKind::Number), // wall_ms
            (4, FieldKind::Number), // file_bytes
            (5, FieldKind::Number), // threads
            (6, FieldKind::Number), // threads_max
            (7, FieldKind::Number), // disk_bytes
        ],
    };
}

impl Measured for crate::onnxd::FrontendName {
    const SHAPE: Shape = Shape {
        name: "FrontendName",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // plugin
            (2, FieldKind::Text), // component
        ],
    };
}

impl Measured for crate::onnxd::ProbeCandidate {
    const SHAPE: Shape = Shape {
        name: "ProbeCandidate",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Numbers { held: size_of::<u32>(), encoded: None }), // files
            (2, FieldKind::Text), // network
            (3, FieldKind::Text), // params_json
            (4, FieldKind::Messages(&<crate::onnxd::FrontendName as Measured>::SHAPE)), // unasked
        ],
    };
}

impl Measured for crate::onnxd::ProbeRequest {
    const SHAPE: Shape = Shape {
        name: "ProbeRequest",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Messages(&<crate::onnxd::PluginInfo as Measured>::SHAPE)), // plugins
            (2, FieldKind::Messages(&<crate::onnxd::InputFile as Measured>::SHAPE)), // files
            (5, FieldKind::Messages(&<crate::onnxd::ProbeCandidate as Measured>::SHAPE)), // candidates
        ],
    };
}

impl Measured for crate::onnxd::ProbeStarted {
    const SHAPE: Shape = Shape {
        name: "ProbeStarted",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // candidate
        ],
    };
}

impl Measured for crate::onnxd::ProbeAnswer {
    const SHAPE: Shape = Shape {
        name: "ProbeAnswer",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // frontend
            (2, FieldKind::Text), // plugin
            (3, FieldKind::Message(&<crate::onnxd::Probe as Measured>::SHAPE)), // probe
            (5, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // failed
            (6, FieldKind::Number), // died
        ],
    };
}

impl Measured for crate::onnxd::ProbeAnswers {
    const SHAPE: Shape = Shape {
        name: "ProbeAnswers",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // candidate
            (2, FieldKind::Messages(&<crate::onnxd::ProbeAnswer as Measured>::SHAPE)), // answers
        ],
    };
}

impl Measured for crate::onnxd::ProbeResult {
    const SHAPE: Shape = Shape {
        name: "ProbeResult",
        bytes: size_of::<Self>(),
        fields: &[],
    };
}

impl Measured for crate::onnxd::InspectRequest {
    const SHAPE: Shape = Shape {
        name: "InspectRequest",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // path
        ],
    };
}

impl Measured for crate::onnxd::InspectResult {
    const SHAPE: Shape = Shape {
        name: "InspectResult",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Message(&<crate::onnxd::PluginInfo as Measured>::SHAPE)), // plugin
            (2, FieldKind::Message(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // refused
        ],
    };
}

impl Measured for crate::onnxd::ConvertRequest {
    const SHAPE: Shape = Shape {
        name: "ConvertRequest",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // job
            (2, FieldKind::Text), // name
            (3, FieldKind::Number), // attempt
            (4, FieldKind::Messages(&<crate::onnxd::PluginInfo as Measured>::SHAPE)), // plugins
            (5, FieldKind::Messages(&<crate::onnxd::InputFile as Measured>::SHAPE)), // files
            (6, FieldKind::Text), // network
            (7, FieldKind::Text), // params_json
            (8, FieldKind::Text), // work_dir
            (9, FieldKind::Number), // rewrites_max
            (10, FieldKind::Messages(&<crate::onnxd::Param as Measured>::SHAPE)), // params
            (11, FieldKind::Message(&<crate::onnxd::Recognition as Measured>::SHAPE)), // recognition
            (12, FieldKind::Texts), // taken
        ],
    };
}

impl Measured for crate::onnxd::Request {
    const SHAPE: Shape = Shape {
        name: "Request",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Message(&<crate::onnxd::Limits as Measured>::SHAPE)), // limits
            (2, FieldKind::Message(&<crate::onnxd::ProbeRequest as Measured>::SHAPE)), // probe
            (3, FieldKind::Message(&<crate::onnxd::InspectRequest as Measured>::SHAPE)), // inspect
            (4, FieldKind::Message(&<crate::onnxd::ConvertRequest as Measured>::SHAPE)), // convert
        ],
    };
}

impl Measured for crate::onnxd::StageStarted {
    const SHAPE: Shape = Shape {
        name: "StageStarted",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // stage
            (2, FieldKind::Text), // plugin
            (3, FieldKind::Text), // component
        ],
    };
}

impl Measured for crate::onnxd::Progress {
    const SHAPE: Shape = Shape {
        name: "Progress",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // done
            (2, FieldKind::Number), // total
            (3, FieldKind::Text), // about
        ],
    };
}

impl Measured for crate::onnxd::LogLine {
    const SHAPE: Shape = Shape {
        name: "LogLine",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // level
            (2, FieldKind::Text), // target
            (3, FieldKind::Text), // text
        ],
    };
}

impl Measured for crate::onnxd::ConvertResult {
    const SHAPE: Shape = Shape {
        name: "ConvertResult",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Message(&<crate::onnxd::Report as Measured>::SHAPE)), // report
            (2, FieldKind::Messages(&<crate::onnxd::FileDigest as Measured>::SHAPE)), // outputs
        ],
    };
}

impl Measured for crate::onnxd::WorkerEvent {
    const SHAPE: Shape = Shape {
        name: "WorkerEvent",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Message(&<crate::onnxd::StageStarted as Measured>::SHAPE)), // stage
            (2, FieldKind::Message(&<crate::onnxd::Progress as Measured>::SHAPE)), // progress
            (3, FieldKind::Message(&<crate::onnxd::LogLine as Measured>::SHAPE)), // log
            (4, FieldKind::Message(&<crate::onnxd::ProbeResult as Measured>::SHAPE)), // probed
            (5, FieldKind::Message(&<crate::onnxd::InspectResult as Measured>::SHAPE)), // inspected
            (6, FieldKind::Message(&<crate::onnxd::ConvertResult as Measured>::SHAPE)), // converted
            (7, FieldKind::Message(&<crate::onnxd::Diagnostics as Measured>::SHAPE)), // failed
            (8, FieldKind::Message(&<crate::onnxd::ProbeStarted as Measured>::SHAPE)), // probing
            (9, FieldKind::Message(&<crate::onnxd::ProbeAnswers as Measured>::SHAPE)), // answers
        ],
    };
}

impl Measured for crate::onnxd::JobEvent {
    const SHAPE: Shape = Shape {
        name: "JobEvent",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // unix_ms
            (2, FieldKind::Number), // from
            (3, FieldKind::Number), // to
            (4, FieldKind::Text), // actor
            (5, FieldKind::Text), // reason
        ],
    };
}

impl Measured for crate::onnxd::Recognized {
    const SHAPE: Shape = Shape {
        name: "Recognized",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Message(&<crate::onnxd::Recognition as Measured>::SHAPE)), // recognition
            (2, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
            (3, FieldKind::Text), // asked
        ],
    };
}

impl Measured for crate::onnxd::Kept {
    const SHAPE: Shape = Shape {
        name: "Kept",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Text), // claim
            (2, FieldKind::Text), // report
        ],
    };
}

impl Measured for crate::onnxd::Job {
    const SHAPE: Shape = Shape {
        name: "Job",
        bytes: size_of::<Self>(),
        fields: &[
            (1, FieldKind::Number), // schema
            (2, FieldKind::Text), // id
            (3, FieldKind::Text), // name
            (4, FieldKind::Text), // folder
            (5, FieldKind::Text), // inbox
            (6, FieldKind::Text), // network
            (7, FieldKind::Messages(&<crate::onnxd::InputFile as Measured>::SHAPE)), // files
            (8, FieldKind::Number), // state
            (9, FieldKind::Number), // lease
            (10, FieldKind::Number), // attempts
            (11, FieldKind::Number), // crashes
            (12, FieldKind::Number), // priority
            (13, FieldKind::Text), // params_json
            (14, FieldKind::Messages(&<crate::onnxd::Param as Measured>::SHAPE)), // params
            (15, FieldKind::Text), // identity
            (16, FieldKind::Number), // created_ms
            (17, FieldKind::Number), // finished_ms
            (18, FieldKind::Number), // not_before_ms
            (19, FieldKind::Text), // stage
            (20, FieldKind::Text), // published
            (21, FieldKind::Text), // duplicate_of
            (22, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // diagnostics
            (23, FieldKind::Messages(&<crate::onnxd::JobEvent as Measured>::SHAPE)), // events
            (24, FieldKind::Text), // raw_source
            (25, FieldKind::Message(&<crate::onnxd::Recognized as Measured>::SHAPE)), // recognized
            (26, FieldKind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
            (27, FieldKind::Text), // staged
        ],
    };
}

/// All messages.
pub const ALL: [&Shape; 63] = [
    &<crate::onnxd::Diagnostic as Measured>::SHAPE,
    &<crate::onnxd::Diagnostics as Measured>::SHAPE,
    &<crate::onnxd::InputFile as Measured>::SHAPE,
    &<crate::onnxd::FileDigest as Measured>::SHAPE,
    &<crate::onnxd::Declined as Measured>::SHAPE,
    &<crate::onnxd::Recognition as Measured>::SHAPE,
    &<crate::onnxd::Param as Measured>::SHAPE,
    &<crate::onnxd::Component as Measured>::SHAPE,
    &<crate::onnxd::ValueSummary as Measured>::SHAPE,
    &<crate::onnxd::OpCount as Measured>::SHAPE,
    &<crate::onnxd::State as Measured>::SHAPE,
    &<crate::onnxd::ModelSummary as Measured>::SHAPE,
    &<crate::onnxd::Stage as Measured>::SHAPE,
    &<crate::onnxd::Skip as Measured>::SHAPE,
    &<crate::onnxd::Pass as Measured>::SHAPE,
    &<crate::onnxd::PassComparison as Measured>::SHAPE,
    &<crate::onnxd::QuantizedTensor as Measured>::SHAPE,
    &<crate::onnxd::Counts as Measured>::SHAPE,
    &<crate::onnxd::Attempt as Measured>::SHAPE,
    &<crate::onnxd::QuantizedLayer as Measured>::SHAPE,
    &<crate::onnxd::Accumulator as Measured>::SHAPE,
    &<crate::onnxd::Quality as Measured>::SHAPE,
    &<crate::onnxd::Remedy as Measured>::SHAPE,
    &<crate::onnxd::Quantization as Measured>::SHAPE,
    &<crate::onnxd::OutputNumerics as Measured>::SHAPE,
    &<crate::onnxd::Numerics as Measured>::SHAPE,
    &<crate::onnxd::PluginLine as Measured>::SHAPE,
    &<crate::onnxd::Versions as Measured>::SHAPE,
    &<crate::onnxd::ModelReport as Measured>::SHAPE,
    &<crate::onnxd::Report as Measured>::SHAPE,
    &<crate::onnxd::SubmissionFile as Measured>::SHAPE,
    &<crate::onnxd::Submission as Measured>::SHAPE,
    &<crate::onnxd::Need as Measured>::SHAPE,
    &<crate::onnxd::Probe as Measured>::SHAPE,
    &<crate::onnxd::ParamsRead as Measured>::SHAPE,
    &<crate::onnxd::IdleParam as Measured>::SHAPE,
    &<crate::onnxd::PassLog as Measured>::SHAPE,
    &<crate::onnxd::QuantizeLog as Measured>::SHAPE,
    &<crate::onnxd::ImportLog as Measured>::SHAPE,
    &<crate::onnxd::NamedGraph as Measured>::SHAPE,
    &<crate::onnxd::PluginComponent as Measured>::SHAPE,
    &<crate::onnxd::PluginInfo as Measured>::SHAPE,
    &<crate::onnxd::Limits as Measured>::SHAPE,
    &<crate::onnxd::FrontendName as Measured>::SHAPE,
    &<crate::onnxd::ProbeCandidate as Measured>::SHAPE,
    &<crate::onnxd::ProbeRequest as Measured>::SHAPE,
    &<crate::onnxd::ProbeStarted as Measured>::SHAPE,
    &<crate::onnxd::ProbeAnswer as Measured>::SHAPE,
    &<crate::onnxd::ProbeAnswers as Measured>::SHAPE,
    &<crate::onnxd::ProbeResult as Measured>::SHAPE,
    &<crate::onnxd::InspectRequest as Measured>::SHAPE,
    &<crate::onnxd::InspectResult as Measured>::SHAPE,
    &<crate::onnxd::ConvertRequest as Measured>::SHAPE,
    &<crate::onnxd::Request as Measured>::SHAPE,
    &<crate::onnxd::StageStarted as Measured>::SHAPE,
    &<crate::onnxd::Progress as Measured>::SHAPE,
    &<crate::onnxd::LogLine as Measured>::SHAPE,
    &<crate::onnxd::ConvertResult as Measured>::SHAPE,
    &<crate::onnxd::WorkerEvent as Measured>::SHAPE,
    &<crate::onnxd::JobEvent as Measured>::SHAPE,
    &<crate::onnxd::Recognized as Measured>::SHAPE,
    &<crate::onnxd::Kept as Measured>::SHAPE,
    &<crate::onnxd::Job as Measured>::SHAPE,
];
