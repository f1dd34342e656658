//! Operators on complex numbers, which ONNX does not have: they have rows of their own (`complex::mul`), or are done to
//! the real and the imaginary part.

use super::{Machine, Result};
use crate::aten::complex::{by_parts, of_parts, parts};
use crate::aten::dtype::{dtype_of_number, number};
use crate::diag::{Code, shown};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::complex::{float_of, is, is_complex};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::Value;

impl Machine<'_> {
    /// What an operator gives, if an argument of it is complex.
    pub(super) fn of_complex(
        &self,
        key: &str,
        named: &[(String, Value)],
        results: usize,
    ) -> Result<Option<Vec<Value>>> {
        if !named.iter().any(|(_, value)| self.has_complex(value)) {
            return self.made_complex(key, named, results);
        }
        let plain = key.split_once("::").map_or(key, |(_, name)| name);
        let name = plain.split('.').next().unwrap_or(plain);
        let own = format!("complex::{name}");
        if self.driver.takes(&own) {
            return self.lowered_row(&own, named.to_vec(), results).map(Some);
        }
        if is_same(name) {
            return Ok(named.first().map(|(_, value)| vec![value.clone()]));
        }
        if !by_parts(name) {
            let message = format!("`{}` of complex numbers cannot be said in ONNX.", shown(key));
            return Err(self.problem(Code::LayerUnsupported, message));
        }
        let part = |i: usize| {
            let value = |(name, value): &(String, Value)| Ok((name.clone(), self.part(value, i)?));
            let named = named.iter().map(value).collect::<Result<Vec<_>>>()?;
            self.lowered_row(key, named, results)
        };
        let both = part(0)?.into_iter().zip(part(1)?);
        both.map(|(re, im)| self.joined(re, im)).collect::<Result<_>>().map(Some)
    }

    /// What an operator gives that is told to give a complex tensor: real numbers.
    fn made_complex(
        &self,
        key: &str,
        named: &[(String, Value)],
        results: usize,
    ) -> Result<Option<Vec<Value>>> {
        let dtype = |name: &str, value: &Value| match value {
            Value::Int(n) if name == "dtype" => dtype_of_number(*n).filter(|d| is_complex(*d)),
            _ => None,
        };
        if !named.iter().any(|(name, value)| dtype(name, value).is_some()) {
            return Ok(None);
        }
        let real = |(name, value): &(String, Value)| match dtype(name, value) {
            Some(complex) => (name.clone(), Value::Int(number(float_of(complex)))),
            None => (name.clone(), value.clone()),
        };
        let given = self.lowered_row(key, named.iter().map(real).collect(), results)?;
        let b = self.builder();
        let [Value::Var(re)] = given[..] else { return Ok(Some(given)) };
        Ok(Some(vec![of_parts(b, [re, b.mul(re, 0.0)?])?.into()]))
    }

    fn has_complex(&self, value: &Value) -> bool {
        match value {
            Value::Var(v) => is(self.builder(), *v),
            Value::List(items) => items.iter().any(|item| self.has_complex(item)),
            _ => false,
        }
    }

    /// The real (0) or imaginary (1) part of what is complex in a value.
    fn part(&self, value: &Value, i: usize) -> Result<Value> {
        Ok(match value {
            Value::Var(v) if is(self.builder(), *v) => parts(self.builder(), *v)?[i].into(),
            // A real number beside complex ones.
            Value::Var(v)
                if i == 1 && self.builder().dtype_of(*v).is_some_and(DataType::is_float) =>
            {
                self.builder().mul(*v, 0.0)?.into()
            }
            Value::List(items) => {
                Value::List(items.iter().map(|x| self.part(x, i)).collect::<Result<_>>()?)
            }
            other => other.clone(),
        })
    }

    fn joined(&self, re: Value, im: Value) -> Result<Value> {
        Ok(match (re, im) {
            (Value::Var(re), Value::Var(im)) => {
                let joined: Var = of_parts(self.builder(), [re, im])?;
                joined.into()
            }
            (Value::List(re), Value::List(im)) => {
                let both = re.into_iter().zip(im);
                Value::List(both.map(|(re, im)| self.joined(re, im)).collect::<Result<_>>()?)
            }
            (re, _) => re,
        })
    }
}

/// Operators that give what they get.
fn is_same(name: &str) -> bool {
    matches!(
        name,
        "clone"
            | "detach"
            | "alias"
            | "contiguous"
            | "resolve_conj"
            | "resolve_neg"
            | "lift_fresh_copy"
    )
}
