// Written by tests/generated.rs.

impl Measured for crate::onnxd::Diagnostic {
    const SHAPE: Shape = Shape {
        name: "Diagnostic",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // code
            (2, Kind::Text), // class
            (3, Kind::Text), // message
            (4, Kind::Text), // layer
            (5, Kind::Text), // layer_kind
            (6, Kind::Text), // place
            (7, Kind::Text), // help
            (8, Kind::Text), // severity
        ],
    };
}

impl Measured for crate::onnxd::Diagnostics {
    const SHAPE: Shape = Shape {
        name: "Diagnostics",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // items
        ],
    };
}

impl Measured for crate::onnxd::InputFile {
    const SHAPE: Shape = Shape {
        name: "InputFile",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // path
            (2, Kind::Text), // name
            (3, Kind::Number), // bytes
            (4, Kind::Text), // sha256
        ],
    };
}

impl Measured for crate::onnxd::FileDigest {
    const SHAPE: Shape = Shape {
        name: "FileDigest",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // path
            (2, Kind::Number), // bytes
            (3, Kind::Text), // sha256
            (5, Kind::Number), // role
        ],
    };
}

impl Measured for crate::onnxd::Declined {
    const SHAPE: Shape = Shape {
        name: "Declined",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // frontend
            (2, Kind::Text), // reason
        ],
    };
}

impl Measured for crate::onnxd::Recognition {
    const SHAPE: Shape = Shape {
        name: "Recognition",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // frontend
            (2, Kind::Text), // plugin
            (3, Kind::Text), // reason
            (4, Kind::Messages(&<crate::onnxd::Declined as Measured>::SHAPE)), // declined
        ],
    };
}

impl Measured for crate::onnxd::Param {
    const SHAPE: Shape = Shape {
        name: "Param",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // key
            (2, Kind::Text), // value
            (3, Kind::Text), // origin
        ],
    };
}

impl Measured for crate::onnxd::Component {
    const SHAPE: Shape = Shape {
        name: "Component",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // id
            (2, Kind::Text), // version
            (3, Kind::Text), // sha256
        ],
    };
}

impl Measured for crate::onnxd::ValueSummary {
    const SHAPE: Shape = Shape {
        name: "ValueSummary",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // name
            (2, Kind::Text), // type
        ],
    };
}

impl Measured for crate::onnxd::OpCount {
    const SHAPE: Shape = Shape {
        name: "OpCount",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // op
            (2, Kind::Number), // source
            (3, Kind::Number), // after_passes
            (4, Kind::Number), // final
        ],
    };
}

impl Measured for crate::onnxd::State {
    const SHAPE: Shape = Shape {
        name: "State",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // input
            (2, Kind::Text), // output
        ],
    };
}

impl Measured for crate::onnxd::ModelSummary {
    const SHAPE: Shape = Shape {
        name: "ModelSummary",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // ir_version
            (2, Kind::Map(&Shape { name: "opset", bytes: size_of::<(String, i64)>(), fields: &[(1, Kind::Text), (2, Kind::Number)] })), // opset
            (3, Kind::Messages(&<crate::onnxd::ValueSummary as Measured>::SHAPE)), // inputs
            (4, Kind::Messages(&<crate::onnxd::ValueSummary as Measured>::SHAPE)), // outputs
            (5, Kind::Messages(&<crate::onnxd::OpCount as Measured>::SHAPE)), // op_counts
            (6, Kind::Number), // parameters
            (7, Kind::Number), // bytes
            (8, Kind::Messages(&<crate::onnxd::State as Measured>::SHAPE)), // states
            (9, Kind::Number), // lowered_from
        ],
    };
}

impl Measured for crate::onnxd::Stage {
    const SHAPE: Shape = Shape {
        name: "Stage",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // name
            (2, Kind::Number), // seconds
            (3, Kind::Number), // peak_rss_bytes
        ],
    };
}

impl Measured for crate::onnxd::Skip {
    const SHAPE: Shape = Shape {
        name: "Skip",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // at
            (2, Kind::Text), // reason
        ],
    };
}

impl Measured for crate::onnxd::Pass {
    const SHAPE: Shape = Shape {
        name: "Pass",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // name
            (2, Kind::Number), // rewrites
            (3, Kind::Number), // seconds
            (4, Kind::Messages(&<crate::onnxd::Skip as Measured>::SHAPE)), // skipped
            (5, Kind::Texts), // notes
        ],
    };
}

impl Measured for crate::onnxd::PassComparison {
    const SHAPE: Shape = Shape {
        name: "PassComparison",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Texts), // passes
            (2, Kind::Text), // plugin
            (3, Kind::Number), // unchanged
            (4, Kind::Number), // equal
            (5, Kind::Number), // different
            (6, Kind::Number), // not_compared
            (7, Kind::Text), // worst
            (8, Kind::Number), // worst_sqnr_db
            (9, Kind::Number), // worst_max_abs
            (10, Kind::Messages(&<crate::onnxd::Skip as Measured>::SHAPE)), // reasons
        ],
    };
}

impl Measured for crate::onnxd::QuantizedTensor {
    const SHAPE: Shape = Shape {
        name: "QuantizedTensor",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // name
            (2, Kind::Text), // element_type
            (3, Kind::Numbers { held: size_of::<f64>(), encoded: Some(8) }), // scales
            (4, Kind::Numbers { held: size_of::<i64>(), encoded: None }), // zero_points
            (5, Kind::Number), // min
            (6, Kind::Number), // max
            (7, Kind::Text), // method
            (8, Kind::Number), // seen_min
            (9, Kind::Number), // seen_max
            (10, Kind::Number), // clipped
            (11, Kind::Message(&<crate::onnxd::Counts as Measured>::SHAPE)), // counts
        ],
    };
}

impl Measured for crate::onnxd::Counts {
    const SHAPE: Shape = Shape {
        name: "Counts",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // low
            (2, Kind::Number), // high
            (3, Kind::Numbers { held: size_of::<u64>(), encoded: None }), // counts
        ],
    };
}

impl Measured for crate::onnxd::Attempt {
    const SHAPE: Shape = Shape {
        name: "Attempt",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // what
            (2, Kind::Number), // sqnr_db
            (3, Kind::Number), // chosen
        ],
    };
}

impl Measured for crate::onnxd::QuantizedLayer {
    const SHAPE: Shape = Shape {
        name: "QuantizedLayer",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // name
            (2, Kind::Text), // op
            (3, Kind::Text), // rescaling
            (4, Kind::Number), // sqnr_db
            (5, Kind::Text), // output
            (6, Kind::Message(&<crate::onnxd::Accumulator as Measured>::SHAPE)), // accumulator
        ],
    };
}

impl Measured for crate::onnxd::Accumulator {
    const SHAPE: Shape = Shape {
        name: "Accumulator",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // max
            (2, Kind::Number), // bits
            (3, Kind::Number), // bits_held
        ],
    };
}

impl Measured for crate::onnxd::Quality {
    const SHAPE: Shape = Shape {
        name: "Quality",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // sqnr_db
            (2, Kind::Number), // worst_db
            (3, Kind::Text), // worst
            (4, Kind::Number), // outputs
            (5, Kind::Number), // samples
            (6, Kind::Text), // origin
            (7, Kind::Text), // unmeasured
            (8, Kind::Number), // top1_loss
            (9, Kind::Number), // products
            (10, Kind::Number), // quantized
            (11, Kind::Number), // weights
            (12, Kind::Number), // not_finite
            (13, Kind::Number), // constant
            (14, Kind::Number), // sqnr_db_floor
            (15, Kind::Number), // sqnr_db_min
            (16, Kind::Number), // top1_loss_max
            (17, Kind::Text), // meant_for
            (18, Kind::Text), // not_finite_at
            (19, Kind::Messages(&<crate::onnxd::Remedy as Measured>::SHAPE)), // remedies
            (20, Kind::Number), // nearest_db
            (21, Kind::Text), // next
            (22, Kind::Number), // error_db
        ],
    };
}

impl Measured for crate::onnxd::Remedy {
    const SHAPE: Shape = Shape {
        name: "Remedy",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // params
            (2, Kind::Number), // gain_db
            (3, Kind::Number), // bytes
        ],
    };
}

impl Measured for crate::onnxd::Quantization {
    const SHAPE: Shape = Shape {
        name: "Quantization",
        bytes: size_of::<Self>(),
        fields: &[
            (3, Kind::Messages(&<crate::onnxd::QuantizedTensor as Measured>::SHAPE)), // tensors
            (4, Kind::Messages(&<crate::onnxd::QuantizedLayer as Measured>::SHAPE)), // layers
            (5, Kind::Messages(&<crate::onnxd::Skip as Measured>::SHAPE)), // left_in_float
            (6, Kind::Number), // samples
            (7, Kind::Number), // compared
            (8, Kind::Text), // statistics
            (9, Kind::Number), // random_samples
            (10, Kind::Messages(&<crate::onnxd::Attempt as Measured>::SHAPE)), // tried
            (11, Kind::Message(&<crate::onnxd::Quality as Measured>::SHAPE)), // quality
            (16, Kind::Text), // format
            (17, Kind::Text), // quantizer
            (18, Kind::Text), // plugin
        ],
    };
}

impl Measured for crate::onnxd::OutputNumerics {
    const SHAPE: Shape = Shape {
        name: "OutputNumerics",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // output
            (2, Kind::Number), // max_abs
            (3, Kind::Number), // mean_abs
            (4, Kind::Number), // cosine
            (5, Kind::Number), // sqnr_db
            (6, Kind::Number), // within
        ],
    };
}

impl Measured for crate::onnxd::Numerics {
    const SHAPE: Shape = Shape {
        name: "Numerics",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // engine
            (2, Kind::Number), // tolerance_abs
            (3, Kind::Number), // tolerance_rel
            (4, Kind::Messages(&<crate::onnxd::OutputNumerics as Measured>::SHAPE)), // outputs
            (5, Kind::Number), // top1_agreement
            (6, Kind::Text), // inputs
        ],
    };
}

impl Measured for crate::onnxd::PluginLine {
    const SHAPE: Shape = Shape {
        name: "PluginLine",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // plugin
            (2, Kind::Text), // level
            (3, Kind::Text), // target
            (4, Kind::Text), // text
        ],
    };
}

impl Measured for crate::onnxd::Versions {
    const SHAPE: Shape = Shape {
        name: "Versions",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // onnxd
            (2, Kind::Messages(&<crate::onnxd::Component as Measured>::SHAPE)), // plugins
        ],
    };
}

impl Measured for crate::onnxd::Report {
    const SHAPE: Shape = Shape {
        name: "Report",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // schema
            (2, Kind::Text), // job
            (3, Kind::Text), // name
            (5, Kind::Text), // summary
            (6, Kind::Message(&<crate::onnxd::Recognition as Measured>::SHAPE)), // recognition
            (7, Kind::Messages(&<crate::onnxd::Param as Measured>::SHAPE)), // params
            (10, Kind::Messages(&<crate::onnxd::FileDigest as Measured>::SHAPE)), // source
            (11, Kind::Messages(&<crate::onnxd::FileDigest as Measured>::SHAPE)), // outputs
            (12, Kind::Message(&<crate::onnxd::ModelSummary as Measured>::SHAPE)), // model
            (13, Kind::Messages(&<crate::onnxd::Stage as Measured>::SHAPE)), // stages
            (14, Kind::Messages(&<crate::onnxd::Pass as Measured>::SHAPE)), // passes
            (15, Kind::Message(&<crate::onnxd::Numerics as Measured>::SHAPE)), // numerics
            (16, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // diagnostics
            (17, Kind::Number), // attempt
            (18, Kind::Texts), // metadata
            (19, Kind::Message(&<crate::onnxd::Quantization as Measured>::SHAPE)), // quantization
            (30, Kind::Messages(&<crate::onnxd::PluginLine as Measured>::SHAPE)), // plugin_log
            (31, Kind::Number), // plugin_log_dropped
            (32, Kind::Message(&<crate::onnxd::Versions as Measured>::SHAPE)), // versions
            (33, Kind::Messages(&<crate::onnxd::PassComparison as Measured>::SHAPE)), // comparisons
            (34, Kind::Number), // verdict
        ],
    };
}

impl Measured for crate::onnxd::SubmissionFile {
    const SHAPE: Shape = Shape {
        name: "SubmissionFile",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // path
            (2, Kind::Number), // bytes
        ],
    };
}

impl Measured for crate::onnxd::Submission {
    const SHAPE: Shape = Shape {
        name: "Submission",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Messages(&<crate::onnxd::SubmissionFile as Measured>::SHAPE)), // files
            (2, Kind::Text), // network
            (3, Kind::Text), // params_json
            (4, Kind::Texts), // lowered
        ],
    };
}

impl Measured for crate::onnxd::Need {
    const SHAPE: Shape = Shape {
        name: "Need",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // what
            (2, Kind::Text), // path
            (3, Kind::Number), // found
            (4, Kind::Texts), // found_as
        ],
    };
}

impl Measured for crate::onnxd::Probe {
    const SHAPE: Shape = Shape {
        name: "Probe",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // level
            (2, Kind::Text), // reason
            (3, Kind::Messages(&<crate::onnxd::Need as Measured>::SHAPE)), // needs
            (6, Kind::Texts), // facts
        ],
    };
}

impl Measured for crate::onnxd::ParamsRead {
    const SHAPE: Shape = Shape {
        name: "ParamsRead",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Texts), // keys
            (2, Kind::Messages(&<crate::onnxd::IdleParam as Measured>::SHAPE)), // idle
        ],
    };
}

impl Measured for crate::onnxd::IdleParam {
    const SHAPE: Shape = Shape {
        name: "IdleParam",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // key
            (2, Kind::Text), // why
        ],
    };
}

impl Measured for crate::onnxd::PassLog {
    const SHAPE: Shape = Shape {
        name: "PassLog",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Messages(&<crate::onnxd::Pass as Measured>::SHAPE)), // passes
            (2, Kind::Message(&<crate::onnxd::ParamsRead as Measured>::SHAPE)), // params_read
            (3, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
        ],
    };
}

impl Measured for crate::onnxd::QuantizeLog {
    const SHAPE: Shape = Shape {
        name: "QuantizeLog",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
            (2, Kind::Map(&Shape { name: "metadata", bytes: size_of::<(String, String)>(), fields: &[(1, Kind::Text), (2, Kind::Text)] })), // metadata
            (15, Kind::Message(&<crate::onnxd::ParamsRead as Measured>::SHAPE)), // params_read
        ],
    };
}

impl Measured for crate::onnxd::ImportLog {
    const SHAPE: Shape = Shape {
        name: "ImportLog",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
            (2, Kind::Map(&Shape { name: "metadata", bytes: size_of::<(String, String)>(), fields: &[(1, Kind::Text), (2, Kind::Text)] })), // metadata
            (3, Kind::Message(&<crate::onnxd::ParamsRead as Measured>::SHAPE)), // params_read
            (4, Kind::Messages(&<crate::onnxd::State as Measured>::SHAPE)), // states
        ],
    };
}

impl Measured for crate::onnxd::PluginComponent {
    const SHAPE: Shape = Shape {
        name: "PluginComponent",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // kind
            (2, Kind::Text), // id
            (3, Kind::Text), // summary
            (4, Kind::Texts), // globs
        ],
    };
}

impl Measured for crate::onnxd::PluginInfo {
    const SHAPE: Shape = Shape {
        name: "PluginInfo",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // path
            (2, Kind::Text), // sha256
            (3, Kind::Text), // id
            (4, Kind::Text), // version
            (5, Kind::Number), // abi_major
            (6, Kind::Number), // abi_minor
            (7, Kind::Text), // descriptor
            (8, Kind::Messages(&<crate::onnxd::PluginComponent as Measured>::SHAPE)), // components
        ],
    };
}

impl Measured for crate::onnxd::Limits {
    const SHAPE: Shape = Shape {
        name: "Limits",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // memory_bytes
            (2, Kind::Number), // cpu_seconds
            (3, Kind::Number), // wall_ms
            (4, Kind::Number), // file_bytes
            (5, Kind::Number), // threads
            (6, Kind::Number), // threads_max
            (7, Kind::Number), // disk_bytes
        ],
    };
}

impl Measured for crate::onnxd::FrontendName {
    const SHAPE: Shape = Shape {
        name: "FrontendName",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // plugin
            (2, Kind::Text), // component
        ],
    };
}

impl Measured for crate::onnxd::ProbeCandidate {
    const SHAPE: Shape = Shape {
        name: "ProbeCandidate",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Numbers { held: size_of::<u32>(), encoded: None }), // files
            (2, Kind::Text), // network
            (3, Kind::Text), // params_json
            (4, Kind::Messages(&<crate::onnxd::FrontendName as Measured>::SHAPE)), // unasked
        ],
    };
}

impl Measured for crate::onnxd::ProbeRequest {
    const SHAPE: Shape = Shape {
        name: "ProbeRequest",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Messages(&<crate::onnxd::PluginInfo as Measured>::SHAPE)), // plugins
            (2, Kind::Messages(&<crate::onnxd::InputFile as Measured>::SHAPE)), // files
            (5, Kind::Messages(&<crate::onnxd::ProbeCandidate as Measured>::SHAPE)), // candidates
        ],
    };
}

impl Measured for crate::onnxd::ProbeStarted {
    const SHAPE: Shape = Shape {
        name: "ProbeStarted",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // candidate
        ],
    };
}

impl Measured for crate::onnxd::ProbeAnswer {
    const SHAPE: Shape = Shape {
        name: "ProbeAnswer",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // frontend
            (2, Kind::Text), // plugin
            (3, Kind::Message(&<crate::onnxd::Probe as Measured>::SHAPE)), // probe
            (5, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // failed
            (6, Kind::Number), // died
        ],
    };
}

impl Measured for crate::onnxd::ProbeAnswers {
    const SHAPE: Shape = Shape {
        name: "ProbeAnswers",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // candidate
            (2, Kind::Messages(&<crate::onnxd::ProbeAnswer as Measured>::SHAPE)), // answers
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
            (1, Kind::Text), // path
        ],
    };
}

impl Measured for crate::onnxd::InspectResult {
    const SHAPE: Shape = Shape {
        name: "InspectResult",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Message(&<crate::onnxd::PluginInfo as Measured>::SHAPE)), // plugin
            (2, Kind::Message(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // refused
        ],
    };
}

impl Measured for crate::onnxd::ConvertRequest {
    const SHAPE: Shape = Shape {
        name: "ConvertRequest",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // job
            (2, Kind::Text), // name
            (3, Kind::Number), // attempt
            (4, Kind::Messages(&<crate::onnxd::PluginInfo as Measured>::SHAPE)), // plugins
            (5, Kind::Messages(&<crate::onnxd::InputFile as Measured>::SHAPE)), // files
            (6, Kind::Text), // network
            (7, Kind::Text), // params_json
            (8, Kind::Text), // work_dir
            (9, Kind::Number), // rewrites_max
            (10, Kind::Messages(&<crate::onnxd::Param as Measured>::SHAPE)), // params
            (11, Kind::Message(&<crate::onnxd::Recognition as Measured>::SHAPE)), // recognition
        ],
    };
}

impl Measured for crate::onnxd::Request {
    const SHAPE: Shape = Shape {
        name: "Request",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Message(&<crate::onnxd::Limits as Measured>::SHAPE)), // limits
            (2, Kind::Message(&<crate::onnxd::ProbeRequest as Measured>::SHAPE)), // probe
            (3, Kind::Message(&<crate::onnxd::InspectRequest as Measured>::SHAPE)), // inspect
            (4, Kind::Message(&<crate::onnxd::ConvertRequest as Measured>::SHAPE)), // convert
        ],
    };
}

impl Measured for crate::onnxd::StageStarted {
    const SHAPE: Shape = Shape {
        name: "StageStarted",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // stage
            (2, Kind::Text), // plugin
            (3, Kind::Text), // component
        ],
    };
}

impl Measured for crate::onnxd::Progress {
    const SHAPE: Shape = Shape {
        name: "Progress",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // done
            (2, Kind::Number), // total
            (3, Kind::Text), // about
        ],
    };
}

impl Measured for crate::onnxd::LogLine {
    const SHAPE: Shape = Shape {
        name: "LogLine",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // level
            (2, Kind::Text), // target
            (3, Kind::Text), // text
        ],
    };
}

impl Measured for crate::onnxd::ConvertResult {
    const SHAPE: Shape = Shape {
        name: "ConvertResult",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Message(&<crate::onnxd::Report as Measured>::SHAPE)), // report
            (2, Kind::Messages(&<crate::onnxd::FileDigest as Measured>::SHAPE)), // outputs
        ],
    };
}

impl Measured for crate::onnxd::WorkerEvent {
    const SHAPE: Shape = Shape {
        name: "WorkerEvent",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Message(&<crate::onnxd::StageStarted as Measured>::SHAPE)), // stage
            (2, Kind::Message(&<crate::onnxd::Progress as Measured>::SHAPE)), // progress
            (3, Kind::Message(&<crate::onnxd::LogLine as Measured>::SHAPE)), // log
            (4, Kind::Message(&<crate::onnxd::ProbeResult as Measured>::SHAPE)), // probed
            (5, Kind::Message(&<crate::onnxd::InspectResult as Measured>::SHAPE)), // inspected
            (6, Kind::Message(&<crate::onnxd::ConvertResult as Measured>::SHAPE)), // converted
            (7, Kind::Message(&<crate::onnxd::Diagnostics as Measured>::SHAPE)), // failed
            (8, Kind::Message(&<crate::onnxd::ProbeStarted as Measured>::SHAPE)), // probing
            (9, Kind::Message(&<crate::onnxd::ProbeAnswers as Measured>::SHAPE)), // answers
        ],
    };
}

impl Measured for crate::onnxd::JobEvent {
    const SHAPE: Shape = Shape {
        name: "JobEvent",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // unix_ms
            (2, Kind::Number), // from
            (3, Kind::Number), // to
            (4, Kind::Text), // actor
            (5, Kind::Text), // reason
        ],
    };
}

impl Measured for crate::onnxd::Recognized {
    const SHAPE: Shape = Shape {
        name: "Recognized",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Message(&<crate::onnxd::Recognition as Measured>::SHAPE)), // recognition
            (2, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
            (3, Kind::Text), // asked
        ],
    };
}

impl Measured for crate::onnxd::Kept {
    const SHAPE: Shape = Shape {
        name: "Kept",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Text), // claim
            (2, Kind::Text), // report
        ],
    };
}

impl Measured for crate::onnxd::Job {
    const SHAPE: Shape = Shape {
        name: "Job",
        bytes: size_of::<Self>(),
        fields: &[
            (1, Kind::Number), // schema
            (2, Kind::Text), // id
            (3, Kind::Text), // name
            (4, Kind::Text), // folder
            (5, Kind::Text), // inbox
            (6, Kind::Text), // network
            (7, Kind::Messages(&<crate::onnxd::InputFile as Measured>::SHAPE)), // files
            (8, Kind::Number), // state
            (9, Kind::Number), // lease
            (10, Kind::Number), // attempts
            (11, Kind::Number), // crashes
            (12, Kind::Number), // priority
            (13, Kind::Text), // params_json
            (14, Kind::Messages(&<crate::onnxd::Param as Measured>::SHAPE)), // params
            (15, Kind::Text), // identity
            (16, Kind::Number), // created_ms
            (17, Kind::Number), // finished_ms
            (18, Kind::Number), // not_before_ms
            (19, Kind::Text), // stage
            (20, Kind::Text), // published
            (21, Kind::Text), // duplicate_of
            (22, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // diagnostics
            (23, Kind::Messages(&<crate::onnxd::JobEvent as Measured>::SHAPE)), // events
            (24, Kind::Text), // raw_source
            (25, Kind::Message(&<crate::onnxd::Recognized as Measured>::SHAPE)), // recognized
            (26, Kind::Messages(&<crate::onnxd::Diagnostic as Measured>::SHAPE)), // notes
            (27, Kind::Text), // staged
        ],
    };
}

/// All messages.
pub const ALL: [&Shape; 61] = [
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
