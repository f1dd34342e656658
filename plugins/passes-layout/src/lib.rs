//! Layout: fewer Transposes, where operators work on any order of axes.

mod agnostic;
mod cut;
mod move_transposes;
mod order;
mod region;
mod relay;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.passes-layout",
    summary: "Moves and cancels Transposes around operators that work on any order of axes",
    components: [
        pass(
            "move-transposes",
            "Moves Transposes through operators that work on any order of axes, where that leaves fewer" =>
            || Box::new(move_transposes::MoveTransposes),
        ),
    ],
}
