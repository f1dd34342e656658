use super::{NetworkFormat, Ran, import, input_type, no_tensor, output};
use onnxd_plugin_sdk::ExportOptions;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::text::print_graph;
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, ValueType};
use onnxd_plugin_sdk::lower::Table;

const READER: NetworkFormat = NetworkFormat { name: "net", table: Table::new };

fn options() -> ExportOptions {
    ExportOptions::of_shapes(18, vec![])
}

#[test]
fn weights_come_last_and_what_nothing_reads_leaves() {
    let done = import(&READER, &options(), |driver, _| {
        let b = driver.builder();
        let vector = || ValueType::tensor(DataType::Float, [2]);
        let (w, unread) = (b.input("w", vector()), b.input("unread", vector()));
        let x = b.input("x", vector());
        b.parameter("idle", Tensor::vector(vec![1.0f32]));
        output(driver, b.add(x, w)?, "y", Some(DataType::Double))?;
        let weights = vec![b.id(w)?, b.id(unread)?];
        Ok(Ran { weights, metadata: vec![("a".into(), "b".into())], ..Ran::default() })
    });
    let done = done.unwrap();
    let text = print_graph(&done.model.graph);
    assert!(text.contains("(float[2] x, float[2] w) => (double[2] y)"), "{text}");
    assert!(text.contains("y = Cast") && !text.contains("idle"), "{text}");
    assert_eq!(done.metadata, [("a".to_owned(), "b".to_owned())]);
}

#[test]
fn what_is_reported_comes_before_what_ends_the_run() {
    let found = import(&READER, &options(), |driver, _| {
        no_tensor(driver, "y", "a list");
        Err(Diagnostic::new(Code::LayerCycle, "The end."))
    });
    let found = found.unwrap_err();
    let codes: Vec<_> = found.0.iter().map(|one| one.code.as_ref()).collect();
    assert_eq!(codes, ["N0203", "N0206"], "{found}");
}

#[test]
fn inputs_need_a_type_and_axes() {
    let options = options();
    let refused =
        |declared| input_type(&options, 0, "x", declared).unwrap_err().into_finding().code;
    assert_eq!(refused((None, Some(vec![]))), "N0203");
    assert_eq!(refused((Some(DataType::Float), None)), "N0204");
    let given = ExportOptions::of_shapes(18, vec![vec![Dim::Known(3)]]);
    let found = input_type(&given, 0, "x", (Some(DataType::Float), None)).unwrap();
    assert_eq!(found, ValueType::tensor(DataType::Float, [3]));
    let found = input_type(&given, 0, "x", (Some(DataType::Float), Some(vec![]))).unwrap_err();
    assert_eq!(found.code, "N0105");
}

#[test]
fn outputs_have_a_known_number_of_axes() {
    let found = import(&READER, &options(), |driver, _| {
        let b = driver.builder();
        let x = b.input("x", ValueType::tensor(DataType::Float, [6]));
        let sizes =
            ValueType::Tensor { dtype: Some(DataType::Int64), shape: Some(vec![Dim::Unknown]) };
        output(driver, b.reshape(x, b.input("sizes", sizes)).one()?, "y", None)?;
        Ok(Ran::default())
    });
    let found = found.unwrap_err();
    assert!(found.0[0].code == "N0203" && found.0[0].message.contains("output `y`"), "{found}");
}

#[test]
fn outputs_are_not_lost_without_a_word() {
    let lost = || vec!["y".to_owned()];
    let found = import(&READER, &options(), |_, _| Ok(Ran { lost: lost(), ..Ran::default() }));
    let found = found.unwrap_err().to_string();
    assert!(found.contains("Nothing computes the outputs `y`."), "{found}");
    let found = import(&READER, &options(), |driver, _| {
        driver.report(Diagnostic::new(Code::LayerCycle, "The cause."));
        Ok(Ran { lost: lost(), ..Ran::default() })
    });
    assert_eq!(found.unwrap_err().0.len(), 1);
}

#[test]
fn a_real_tensor_is_no_complex_output() {
    let found = import(&READER, &options(), |driver, _| {
        let x = driver.builder().input("x", ValueType::tensor(DataType::Float, [2]));
        output(driver, x, "y", Some(DataType::Complex64))?;
        Ok(Ran::default())
    });
    let found = found.unwrap_err().to_string();
    assert!(found.contains("`y` is declared complex64, and is float"), "{found}");
}

#[test]
fn open_sizes_have_names() {
    let declared = || Some(vec![Dim::Unknown, Dim::Known(3), Dim::Unknown]);
    let named = |options: &ExportOptions, at, name| {
        let declared = (Some(DataType::Float), declared());
        input_type(options, at, name, declared).unwrap().to_string()
    };
    // Inputs of one network may have a batch of 1 and one of n, so each has names of its own.
    let open = options();
    assert_eq!(named(&open, 0, "x"), "float[x_dynamic_axes_1,3,x_dynamic_axes_3]");
    assert_eq!(named(&open, 1, "y"), "float[y_dynamic_axes_1,3,y_dynamic_axes_3]");
    let sizes = vec![Dim::from("n"), Dim::Known(3), Dim::Known(5)];
    assert_eq!(named(&ExportOptions::of_shapes(18, vec![sizes]), 0, "x"), "float[n,3,5]");
}
