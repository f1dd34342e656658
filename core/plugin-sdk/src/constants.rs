//! Inputs of a network that the params give a value (`source.constants`): they are no inputs of the model.

use crate::Params;
use crate::diagnostics::{Code, Diagnostic, shown};
use crate::host_params::Source;
use crate::ir::{DataType, Tensor};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Values of inputs, by their names in the source.
#[derive(Debug, Default)]
pub struct Constants {
    values: Map<String, Value>,
    used: RefCell<BTreeSet<String>>,
}

impl Constants {
    /// What the params say. Ask only where inputs can have values.
    pub(crate) fn of(params: &Params) -> Constants {
        let values = params.section::<Source>().constants();
        let values = values.as_object().cloned().unwrap_or_default();
        Constants { values, used: RefCell::default() }
    }

    /// The value of an input, which counts from now on.
    pub fn take(&self, name: &str) -> Option<&Value> {
        let value = self.values.get(name)?;
        self.used.borrow_mut().insert(name.to_owned());
        Some(value)
    }

    /// The same as a tensor of type `dtype`.
    ///
    /// # Errors
    /// `N0105` for a value that is no tensor of this type.
    pub fn tensor(&self, name: &str, dtype: DataType) -> Result<Option<Tensor>, Diagnostic> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let tensor = tensor_of(value, dtype);
        tensor.map(Some).ok_or_else(|| {
            let (name, value) = (shown(name), value.to_string());
            let message = format!(
                "`source.constants` has {} for `{name}`, which is no tensor of {dtype}.",
                shown(&value)
            );
            Diagnostic::new(Code::ParamsBadValue, message)
        })
    }

    /// Whether an input has a value.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Tells users of values that no input took.
    pub fn tell(&self, params: &Params) {
        let used = self.used.borrow();
        for name in self.values.keys().filter(|name| !used.contains(*name)) {
            let why = format!("names `{name}`, which is no input of the network");
            params.without_effect("source.constants", why);
        }
    }
}

/// Numbers or truth values, in lists of lists of equal lengths.
fn tensor_of(value: &Value, dtype: DataType) -> Option<Tensor> {
    fn collect(
        value: &Value,
        depth: usize,
        dims: &mut Vec<usize>,
        to: &mut Vec<Value>,
    ) -> Option<()> {
        match value {
            Value::Array(list) => {
                match dims.get(depth) {
                    Some(size) if *size != list.len() => return None,
                    Some(_) => {}
                    None if to.is_empty() => dims.push(list.len()),
                    None => return None,
                }
                list.iter().try_for_each(|value| collect(value, depth + 1, dims, to))
            }
            other => {
                to.push(other.clone());
                (depth == dims.len()).then_some(())
            }
        }
    }
    let (mut dims, mut all) = (vec![], vec![]);
    collect(value, 0, &mut dims, &mut all)?;
    let whole: Option<Vec<i64>> = all.iter().map(Value::as_i64).collect();
    let reals: Option<Vec<f64>> = all.iter().map(Value::as_f64).collect();
    match dtype {
        DataType::Bool => {
            let truths = all.iter().map(|value| value.as_bool().map(u8::from));
            let bytes: Vec<u8> = truths.collect::<Option<_>>()?;
            Tensor::new(DataType::Bool, dims, bytes.into()).ok()
        }
        _ if dtype.is_integer() => Some(Tensor::from_vec(dims, whole?).cast(dtype).ok()?.held()),
        _ => Some(Tensor::from_vec(dims, reals?).cast(dtype).ok()?.held()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constants(values: &str) -> Constants {
        let params = format!(r#"{{"source": {{"constants": {values}}}}}"#);
        Constants::of(&Params::parse(&params).unwrap())
    }

    #[test]
    fn inputs_are_fixed_at_values_of_their_types() {
        let constants =
            constants(r#"{"a": false, "b": [[1, 2, 3]], "c": 0.5, "d": [[1], [2, 3]]}"#);
        let of = |name: &str, dtype| constants.tensor(name, dtype);
        let truth = of("a", DataType::Bool).unwrap().unwrap();
        assert_eq!((truth.dims(), truth.bytes().as_ref()), (&[][..], &[0][..]));
        let row = of("b", DataType::Int32).unwrap().unwrap();
        assert_eq!((row.dims(), row.to_i64s().unwrap()), (&[1, 3][..], vec![1, 2, 3]));
        assert_eq!(of("b", DataType::Float16).unwrap().unwrap().dtype(), DataType::Float16);
        assert_eq!(of("x", DataType::Float).unwrap(), None);
        for (name, dtype) in
            [("a", DataType::Float), ("c", DataType::Int64), ("d", DataType::Float)]
        {
            assert_eq!(of(name, dtype).unwrap_err().code, "N0105", "{name}");
        }
    }
}
