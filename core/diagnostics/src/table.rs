//! The table of codes: one row per diagnostic; help and manual are derived from it.

use crate::Class;

macro_rules! diagnostics {
    ($($code:literal $name:ident $class:ident $help:literal;)*) => {
        /// A diagnostic of onnxd. The number is stable and never used again for something else.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $help] $name,)* }

        impl Code {
            /// All codes, in the order of their numbers.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];
            /// The stable number, as users see it.
            pub fn as_str(self) -> &'static str { match self { $(Code::$name => $code,)* } }
            /// The row's name.
            pub fn name(self) -> &'static str { match self { $(Code::$name => stringify!($name),)* } }
            /// Whose problem it is.
            pub fn class(self) -> Class { match self { $(Code::$name => Class::$class,)* } }
            /// What a user does next.
            pub fn help(self) -> &'static str { match self { $(Code::$name => $help,)* } }
        }
    };
}

diagnostics! {
    // 01: submission and params
    "N0101" NoFrontend Input "No front-end recognised the files; check the extension and `onnxd plugins list`.";
    "N0102" FrontendTie Input "Two front-ends claim the network with equal strength; name one with `job.frontend`.";
    "N0103" FileMissing Input "Put the missing file beside the network, or name it in the params.";
    "N0104" ParamsUnknownKey Input "`onnxd explain` lists every key with its type and default.";
    "N0105" ParamsBadValue Input "`onnxd explain` lists every key with its type and default.";
    "N0106" ParamsSyntax Input "Params are TOML or INI.";
    "N0107" Unreadable Input "Check that the file exists and may be read.";
    "N0108" SymlinkRefused Input "Copy the file itself; symbolic links are not followed out of a submission.";
    "N0109" ComponentUnknown Input "`onnxd plugins list` shows the components that are installed.";
    "N0110" SubmissionTooLarge Input "Raise the limit named in the message, or drop a smaller submission.";
    "N0111" ParamsWithoutEffect Input "Leave the param out, or choose the front-end, format or mode that it is for.";
    "N0112" FileNotRead Input "Rename the file to what is read, or take it away.";
    "N0113" ChangedAfterTaking Input "Drop the files again, once nothing writes to them any more.";
    // 02: the network as its author wrote it
    "N0201" SourceSyntax Input "Correct the file at the place named.";
    "N0202" SourceTruncated Input "The file ends early; copy it again completely.";
    "N0203" LayerUnsupported Unsupported "The layer has no counterpart in ONNX that onnxd can write.";
    "N0204" LayerParameter Input "Correct the parameter of the layer named.";
    "N0205" LayerInputMissing Input "Every name in `Input` must be the environment or another layer.";
    "N0206" LayerCycle Input "A layer must not depend on its own output.";
    "N0207" LayerUnreachable Input "The layer is not connected to the network's input.";
    "N0208" WeightsSize Input "The weights file does not fit the layer's geometry.";
    "N0209" WeightsMissing Input "Put the weights file where the message says, or name the folder in the params.";
    "N0210" WeightsSyntax Input "Weights files hold numbers separated by white space, nothing else.";
    "N0211" Expression Input "Correct the expression at the place named.";
    "N0212" TargetMissing Input "At least one layer needs a Target section; it becomes an output of the model.";
    "N0213" SourceLimit Input "The file exceeds a limit that protects the machine.";
    "N0214" FeatureUnsupported Unsupported "The network asks for a feature that onnxd cannot express.";
    "N0215" ShapeMismatch Input "The shapes that meet here do not fit each other.";
    "N0216" LayerParameterIgnored Input "The setting has no effect where it stands.";
    // 03: the machine
    "N0301" WorkerKilled Environment "The worker was killed, mostly for memory; raise `worker.memory_mib_max`.";
    "N0302" WorkerTimeout Environment "Raise `job.timeout_s`, or look at the plugin named.";
    "N0303" WorkerStart Environment "The worker process could not be started; see the system's message.";
    "N0304" Disk Environment "Free space on the disk, or check the folder's permissions.";
    "N0305" OutOfMemory Environment "Raise `worker.memory_mib_max`, or give the machine more memory.";
    "N0306" StoreLocked Environment "Another onnxd uses this state folder; stop it or configure another folder.";
    "N0307" NotRunning Environment "Start the daemon with `onnxd run`.";
    "N0308" StoreVersion Environment "Start the onnxd that wrote the state folder, or a newer one.";
    "N0309" RunStopped Environment "Allow the run more time; a loop may have no end.";
    "N0310" EngineMissing Environment "`onnxd doctor` says which engines are there and how to get them.";
    "N0311" DiskFull Environment "Free space on the disk; the job goes on by itself, and the attempt does not count.";
    "N0312" WorkerDisk Environment "Raise `worker.disk_mib_max`, or look at the plugin named.";
    "N0313" WorkerThreads Environment "Raise `worker.threads_max`, or look at the plugin named.";
    // 04: plugins
    "N0401" PluginCrashed Internal "The plugin named crashed; report it to its author with the job folder.";
    "N0402" PluginPanicked Internal "The plugin named hit a bug; report it to its author.";
    "N0403" PluginRefused Environment "The plugin cannot be loaded by this onnxd; the message says what it expects.";
    "N0404" PluginFailed Internal "The plugin named reported a failure.";
    "N0405" PluginHung Internal "The plugin named did not return in time and was stopped.";
    "N0406" PluginContract Internal "The plugin broke the rules of the plugin interface; report it to its author.";
    "N0407" FrontendMissing Environment "Put the plugins beside the program, or name their folder in `plugins.path`.";
    "N0408" ParamsClash Environment "Disable one of them (`plugins.disable`), or ask its author to rename the param.";
    // 05: ONNX models
    "N0501" OnnxMalformed Input "The file is not a valid ONNX protobuf; export or copy it again.";
    "N0502" OnnxInvalid Input "The model breaks the ONNX standard at the node named; export it again.";
    "N0503" OnnxExternalData Input "Put the external data file beside the model.";
    "N0504" OnnxVersion Unsupported "The model uses a newer ONNX version than this onnxd knows.";
    "N0505" OpsetConversion Unsupported "Leave `export.opset` unset, or set it to one that all nodes can be said in.";
    "N0506" OperatorUnsupported Unsupported "The built-in executor has no kernel for this operator.";
    "N0507" EvalInputs Input "The arrays must have the names, types and shapes of the model's inputs.";
    "N0508" ArrayFile Input "Arrays are read from `.npy` and `.npz` files.";
    "N0509" EngineRefused Unsupported "Another engine may run the model; see `--engine`.";
    "N0510" PictureFile Input "Calibration pictures must be sound and of a size that the network's preprocessing fits.";
    "N0511" ShapeDeclared Input "Runtimes take the computed shape, and so does onnxd; export the model again.";
    // 06: outcome
    "N0601" NumericsMismatch Input "The outputs differ from the reference by more than the tolerance.";
    "N0602" QuantizationUnavailable Unsupported "No installed plugin quantizes in this format.";
    "N0603" StatisticsUnusable Input "Drop the statistics of the same network and settings, or the samples.";
    "N0604" QuantizationLoss Input "The message says what quantization gives up; the report shows what that costs.";
    "N0605" CalibrationRandom Input "Calibrate on data: drop samples, and leave `calibration.random` out.";
    "N0606" QuantizationPoor Input "Look at the layers' ratios in the report, and at the samples.";
    "N0607" ResultChanged Internal "A pass changed what the model computes; leave it out, and tell its author.";
    // 07: configuration and usage
    "N0701" ConfigSyntax Environment "Correct the configuration file at the place named.";
    "N0702" ConfigUnknownKey Environment "`onnxd ctl check-config` lists all settings.";
    "N0703" ConfigBadValue Environment "Correct the setting named.";
    "N0704" Usage Input "See `--help`.";
    "N0705" OutputTaken Input "Name another place with `--out`, or move these files away.";
    // 09: defects of onnxd
    "N0901" InvariantBroken Internal "A pass left the graph inconsistent; please report it with the job folder.";
    "N0902" Internal Internal "This is a defect of onnxd; please report it with the job folder.";
    "N0903" WorkerNoResult Internal "The worker ended without a result; please report it with the job folder.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_ordered() {
        let codes: Vec<&str> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert!(codes.windows(2).all(|w| w[0] < w[1]));
    }
}
