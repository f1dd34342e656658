//! Operators on complex numbers, which ONNX does not have: they have rows of their own (`complex::mul`), or are done to
//! the real and the imaginary part.

use super::{Machine, Result};
use crate::aten::complex::{by_parts, is, of_parts, parts};
use crate::diag::{Code, shown};
use onnxd_plugin_sdk::build::Var;
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
            return Ok(None);
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
