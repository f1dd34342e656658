//! Functions of Python that exported programs apply to numbers, as operators of torch.

/// Name of the function, of the operator, and of its overload where the operator alone would mean another one.
type FunctionRow = (&'static str, &'static str, Option<&'static str>);

#[rustfmt::skip]
const FUNCTIONS: &[FunctionRow] = &[
    ("_operator.add", "aten::add", None),
    ("_operator.sub", "aten::sub", None),
    ("_operator.mul", "aten::mul", None),
    ("_operator.truediv", "aten::div", None),
    ("_operator.floordiv", "aten::floordiv", None),
    ("_operator.mod", "aten::remainder", None),
    // Of integers, and the result is one.
    ("_operator.pow", "aten::pow", Some("int_to_int")),
    ("_operator.neg", "aten::neg", None),
    ("_operator.eq", "aten::eq", None),
    ("_operator.ne", "aten::ne", None),
    ("_operator.lt", "aten::lt", None),
    ("_operator.le", "aten::le", None),
    ("_operator.gt", "aten::gt", None),
    ("_operator.ge", "aten::ge", None),
    ("_operator.and_", "aten::__and__", None),
    ("_operator.or_", "aten::__or__", None),
    ("_operator.xor", "aten::__xor__", None),
    ("_operator.lshift", "aten::__lshift__", None),
    ("_operator.rshift", "aten::__rshift__", None),
    ("math.ceil", "aten::ceil", None),
    ("math.floor", "aten::floor", None),
    ("math.trunc", "aten::Int", None),
    ("builtins.round", "aten::round", None),
    ("torch.sym_float", "aten::Float", None),
    ("torch.sym_int", "aten::Int", None),
    ("torch.sym_max", "prim::max", None),
    ("torch.sym_min", "prim::min", None),
    ("torch.sym_not", "aten::__not__", None),
    ("torch.sym_sqrt", "aten::sqrt", None),
    ("torch._sym_sqrt", "aten::sqrt", None),
    ("torch.sym_sum", "aten::sum", None),
];

/// The operator that computes what a function does, and its overload where kinds of arguments do not tell it.
///
/// `_operator.pos` and `torch.sym_ite` have none.
pub(crate) fn operator(function: &str) -> Option<(&'static str, Option<&'static str>)> {
    let row = FUNCTIONS.iter().find(|(name, ..)| *name == function);
    row.map(|(_, operator, overload)| (*operator, *overload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::find;
    use crate::schema::resolve::{ArgumentKind as A, resolve};

    #[test]
    fn every_function_is_an_operator_on_numbers() {
        let kinds = [
            vec![A::Int, A::Int],
            vec![A::Int],
            vec![A::Bool, A::Bool],
            vec![A::Bool],
            vec![A::List(vec![A::Int])],
        ];
        for (function, name, overload) in FUNCTIONS {
            let found = match overload {
                Some(overload) => find(name, overload).is_some(),
                None => kinds.iter().any(|kinds| resolve(name, kinds, &[]).is_ok()),
            };
            assert!(found, "{function}");
        }
        assert_eq!(operator("_operator.pow"), Some(("aten::pow", Some("int_to_int"))));
        assert_eq!(operator("os.system"), None);
    }
}
