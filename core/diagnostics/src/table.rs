//! The table of codes: one row per diagnostic, with what happened and what a user does next. Help and manual are made
//! of it.

use crate::Class;

macro_rules! diagnostics {
    ($($code:literal $name:ident $class:ident $what:literal $help:literal;)*) => {
        /// A diagnostic of onnxd. The number is stable and never used again for something else.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $what] #[doc = $help] $name,)* }

        impl Code {
            /// All codes, in the order of their numbers.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];
            /// The stable number, as users see it.
            pub fn as_str(self) -> &'static str { match self { $(Code::$name => $code,)* } }
            /// The row's name.
            pub fn name(self) -> &'static str { match self { $(Code::$name => stringify!($name),)* } }
            /// Whose problem it is.
            pub fn class(self) -> Class { match self { $(Code::$name => Class::$class,)* } }
            /// What happened, for the manual; a diagnostic's own message says it of one case.
            pub fn what(self) -> &'static str { match self { $(Code::$name => $what,)* } }
            /// What a user does next.
            pub fn help(self) -> &'static str { match self { $(Code::$name => $help,)* } }
        }
    };
}

diagnostics! {
    // 01: submission and params
    "N0101" NoFrontend Input
        "No front-end takes the files."
        "Check the ending of the file's name; `onnxd plugins list` shows what is read.";
    "N0102" FrontendTie Input
        "Two front-ends claim the network equally strongly."
        "Name one of them with `job.frontend`.";
    "N0103" FileMissing Input
        "A file that the network or the params name is missing."
        "Put the missing file beside the network, or name it in the params.";
    "N0104" ParamsUnknownKey Input
        "An unknown key in the params."
        "Take the key that the message suggests; `onnxd explain --all` lists every key with its value and \
         what it is for.";
    "N0105" ParamsBadValue Input
        "A value in the params does not fit."
        "`onnxd explain --all` lists every key with its value and what it is for; the manual has the types.";
    "N0106" ParamsSyntax Input
        "The params are not TOML or INI."
        "Correct the line named; params are TOML or INI.";
    "N0107" Unreadable Input
        "A file cannot be read, or its name is not UTF-8."
        "Check that the file exists and may be read.";
    "N0108" SymlinkRefused Input
        "A symbolic link in the submission."
        "Copy what the link leads to (`cp -rL`). Only commands follow links to files, and only those of who runs them.";
    "N0109" ComponentUnknown Input
        "No installed plugin has this component."
        "`onnxd plugins list` shows the components that are installed.";
    "N0110" SubmissionTooLarge Input
        "Too many files, or folders too deep."
        "Raise the limit named in the message, or drop a smaller submission.";
    "N0111" ParamsWithoutEffect Input
        "A param that was set has no effect in this conversion."
        "Leave the param out, or choose the front-end, format or mode that it is for.";
    "N0112" FileNotRead Input
        "A file was not read, although its name is one that is read, or nearly one."
        "Rename the file to what is read, set the param that reads it, or take it away.";
    "N0113" ChangedAfterTaking Input
        "A file changed after onnxd took it."
        "Drop the files again, once nothing writes to them any more.";
    "N0114" DownloadUnfinished Input
        "A file of the drop is still being downloaded, or its download broke off."
        "Let the download end, or start it again; remove the file named if nothing fetches it any more.";
    // 02: the network as its author wrote it
    "N0201" SourceSyntax Input
        "The source file breaks its own syntax."
        "Correct the file at the place named.";
    "N0202" SourceTruncated Input
        "The source file ends early."
        "Copy the file again, completely.";
    "N0203" LayerUnsupported Unsupported
        "The layer has no counterpart in ONNX that onnxd writes."
        "Replace the layer named.";
    "N0204" LayerParameter Input
        "A parameter of a layer is wrong or missing, or costs much (a warning)."
        "Correct the parameter of the layer named.";
    "N0205" LayerInputMissing Input
        "`Input` names nothing that exists, or there is no environment."
        "Every name in `Input` must be the environment or another layer.";
    "N0206" LayerCycle Input
        "Layers are inputs of each other."
        "Break the loop that the message shows.";
    "N0207" LayerUnreachable Input
        "A layer is not connected to the input."
        "Connect the layer to the network's input, or remove it.";
    "N0208" WeightsSize Input
        "A weights file has another number of values than the layer."
        "Check that weights and network belong together.";
    "N0209" WeightsMissing Input
        "A weights file is missing."
        "Put the weights file where the message says, or name the folder in the params.";
    "N0210" WeightsSyntax Input
        "A weights file holds something that is not a finite number."
        "Correct the line named: weights files hold numbers separated by white space, nothing else.";
    "N0211" Expression Input
        "An expression has no value."
        "Correct the expression at the place named.";
    "N0212" TargetMissing Input
        "The network has no target."
        "At least one layer needs a Target section; it becomes an output of the model.";
    "N0213" SourceLimit Input
        "The source exceeds a limit."
        "See the chapter \"Limits\" of the manual, and drop a smaller file.";
    "N0214" FeatureUnsupported Unsupported
        "The network asks for a feature that cannot be expressed."
        "Do without the feature named.";
    "N0215" ShapeMismatch Input
        "Shapes do not fit each other."
        "Correct the layer named, whose shapes do not fit each other.";
    "N0216" LayerParameterIgnored Input
        "A setting has no effect, or weights are not finite (a warning; of checkpoints also a finding)."
        "Remove or move the setting; `source.strict` makes it an error.";
    // 03: the machine
    "N0301" WorkerKilled Environment
        "The worker was killed from outside, mostly for memory."
        "Raise `worker.memory_mib_max`, or lower `worker.parallel_max`.";
    "N0302" WorkerTimeout Environment
        "The worker did not end in time."
        "Raise `job.timeout_s`, or `worker.timeout_s` for all jobs; or look at the plugin named.";
    "N0303" WorkerStart Environment
        "The worker could not be started or confined."
        "See the system's message; `onnxd doctor` tells what the machine lacks.";
    "N0304" Disk Environment
        "Writing or moving a file failed."
        "Free space on the disk, or check the folder's permissions.";
    "N0305" OutOfMemory Environment
        "Memory ran out within the limit."
        "Raise `worker.memory_mib_max`, or give the machine more memory.";
    "N0306" StoreLocked Environment
        "Another onnxd uses the state folder."
        "Stop the other onnxd, or configure another folder (`state.dir`).";
    "N0307" NotRunning Environment
        "No daemon answers, or it is busy with this job."
        "Start the daemon with `onnxd run`, or try again in a moment.";
    "N0308" StoreVersion Environment
        "A newer onnxd wrote the state folder."
        "Start the onnxd that wrote the state folder, or a newer one.";
    "N0309" RunStopped Environment
        "A run of a model was stopped when its time was over."
        "Allow the run more time; a loop may have no end.";
    "N0310" EngineMissing Environment
        "An engine was asked for that is not there or cannot be used."
        "`onnxd doctor` says which engines are there and how to get them.";
    "N0311" DiskFull Environment
        "The disk was full, or a quota used up."
        "Free space on the disk; the job goes on by itself, and the attempt does not count. `onnxd jobs \
         cancel` ends it.";
    "N0312" WorkerDisk Environment
        "A conversion wrote more than it may in all, and was stopped."
        "Raise `worker.disk_mib_max`, or look at the plugin named.";
    "N0313" WorkerThreads Environment
        "A conversion had more threads than it may have, and was stopped."
        "Raise `worker.threads_max`, or look at the plugin named.";
    // 04: plugins
    "N0401" PluginCrashed Internal
        "A plugin crashed."
        "Report it to the author of the plugin named, with the job folder.";
    "N0402" PluginPanicked Internal
        "A plugin panicked."
        "Report it to the author of the plugin named.";
    "N0403" PluginRefused Environment
        "A plugin cannot be loaded."
        "`onnxd plugins list` says why; the message says what this onnxd expects.";
    "N0404" PluginFailed Internal
        "A plugin reported a failure."
        "Report it to the author of the plugin named.";
    "N0405" PluginHung Internal
        "A plugin did not return in time."
        "Raise `job.timeout_s`, or report it to the author of the plugin named.";
    "N0406" PluginContract Internal
        "A plugin broke the rules of the interface."
        "Report it to the author of the plugin named; `onnxd plugins check` shows it.";
    "N0407" FrontendMissing Environment
        "No front-end is installed, so that nothing can be converted."
        "Put the plugins beside the program, or name their folder in `plugins.path`.";
    "N0408" ParamsClash Environment
        "Two plugins declare a param differently."
        "Disable one of them (`plugins.disable`), or ask its author to rename the param.";
    // 05: ONNX models
    "N0501" OnnxMalformed Input
        "The file is no ONNX protobuf."
        "Export or copy the file again.";
    "N0502" OnnxInvalid Input
        "The model breaks the standard."
        "Correct the node named, or export the model again; `onnxd check` lists all findings.";
    "N0503" OnnxExternalData Input
        "External data is missing or too short."
        "Put the external data file beside the model.";
    "N0504" OnnxVersion Unsupported
        "The model is of a newer ONNX than this onnxd knows."
        "Export the model with an older opset.";
    "N0505" OpsetConversion Unsupported
        "A node cannot be said in the opset that was asked for."
        "Leave `export.opset` unset, or set it to one that all nodes can be said in.";
    "N0506" OperatorUnsupported Unsupported
        "The built-in executor lacks the operator."
        "The model can still be converted; compare it with another engine (`--engine`).";
    "N0507" EvalInputs Input
        "Arrays do not fit the model's inputs."
        "The arrays must have the names, types and shapes of the model's inputs.";
    "N0508" ArrayFile Input
        "The file of arrays cannot be read."
        "Write the arrays with `numpy.savez`. Move away what is none from a folder of calibration data.";
    "N0509" EngineRefused Unsupported
        "ONNX Runtime does not run the model; its message names the node."
        "Another engine may run the model: `--engine builtin`.";
    "N0510" PictureFile Input
        "A calibration picture cannot be read, or does not come to the input's size."
        "Calibration pictures must be sound and of a size that the network's preprocessing fits.";
    "N0511" ShapeDeclared Input
        "The shape that a value is declared with is not the one that its operator computes."
        "Runtimes take the computed shape, and so does onnxd. Export the model again, or look at the \
         layer named if the declared shape is meant.";
    // 06: outcome
    "N0601" NumericsMismatch Input
        "An output differs from the reference."
        "Look at `numerics` in the report: outputs differ by more than the tolerance.";
    "N0602" QuantizationUnavailable Unsupported
        "Quantization was asked for in a form that no installed plugin offers."
        "Take a form that is named in the message, `quantization.format = \"none\"`, or `nbbits=-32`.";
    "N0603" StatisticsUnusable Input
        "Saved statistics of a calibration are damaged, or belong to another network or other settings."
        "Leave `calibration.reload` (`calib_reload`) out and drop the samples, or drop the statistics of \
         the same network and settings.";
    "N0604" QuantizationLoss Input
        "A note: quantization gives something up, such as bits of a branch, values beyond a range, or all \
         of a model that has nothing to quantize."
        "Look at the layers' SQNR in the report; the message names the param that helps, if one does.";
    "N0605" CalibrationRandom Input
        "The model was calibrated on random numbers instead of data (`calibration.random`)."
        "Calibrate on data: drop samples of what the network will see, and leave `calibration.random` out.";
    "N0606" QuantizationPoor Input
        "A quantization is good for little: outputs below what is demanded, nothing or little became \
         integers, or samples say nothing."
        "Look at the layers' SQNR in the report, and at the samples.";
    "N0607" ResultChanged Internal
        "A pass changed what the model computes, or its inputs or outputs."
        "Leave the pass out (`passes.disable`), and report it to the author of its plugin. The report \
         names the layer.";
    "N0608" LayersDiffer Internal
        "Layers of a model do not compute what a second implementation of their family makes of the \
         checkpoint."
        "Do not use the model before it was compared with its source, and report it.";
    // 07: configuration and usage
    "N0701" ConfigSyntax Environment
        "The settings file is not TOML, or cannot be read."
        "Correct the configuration file at the place named.";
    "N0702" ConfigUnknownKey Environment
        "An unknown setting."
        "Take the key that the message suggests; `onnxd ctl check-config` lists all settings.";
    "N0703" ConfigBadValue Environment
        "A setting's value does not fit."
        "Correct the setting named; the manual has a table of settings.";
    "N0704" Usage Input
        "The command or request is wrong."
        "See `--help`.";
    "N0705" OutputTaken Input
        "What a command would write over is not its own earlier result."
        "Name another place with `--out`, or move these files away.";
    // 09: defects of onnxd
    "N0901" InvariantBroken Internal
        "A pass, or onnxd itself, left an inconsistent graph."
        "Please report it with the job folder.";
    "N0902" Internal Internal
        "Another defect of onnxd."
        "Please report it with the job folder.";
    "N0903" WorkerNoResult Internal
        "The worker ended without a result."
        "Please report it with the job folder.";
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
