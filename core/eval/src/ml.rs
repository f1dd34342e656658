//! Operators of `ai.onnx.ml`: tables and trees.

use crate::call::{Call, Row, integers, one, raw, row};
use crate::cells::{Cell, celled, take};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, stored};
use bytes::Bytes;
use onnxd_ir::{Attr, DataType, Tensor};

const DOMAIN: &str = "ai.onnx.ml";

pub(crate) const ROWS: &[Row] = &[
    raw("ArrayFeatureExtractor", array_feature_extractor).of(DOMAIN),
    row("Binarizer", binarizer).of(DOMAIN),
    raw("LabelEncoder", label_encoder).of(DOMAIN).since(2),
    raw("TreeEnsemble", tree_ensemble).of(DOMAIN),
];

/// Columns by index.
fn array_feature_extractor(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let x = if x.rank() == 1 { x.reshaped([1, x.len()])? } else { x.clone() };
    let Some((size, outer)) = x.dims().split_last() else {
        return Err(Fault::invalid("a scalar has no columns"));
    };
    let picked = integers(call.x(1)?)?.into_iter().map(|i| dims::index(i, *size));
    let mut tables: Vec<Vec<usize>> = outer.iter().map(|d| (0..*d).collect()).collect();
    tables.push(picked.collect::<Outcome<_>>()?);
    let sizes: Vec<usize> = tables.iter().map(Vec::len).collect();
    call.room_like(&x, &sizes)?;
    one(take(&x, &tables, None)?)
}

/// One above the threshold, zero elsewhere.
fn binarizer(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let threshold = f64::from(call.float("threshold", 0.0)?);
    call.room(DataType::Double, x.dims())?;
    let above = reals(x)?.into_iter().map(|v| f64::from(u8::from(v > threshold))).collect();
    one(stored(x.dtype(), x.dims(), above)?)
}

/// A list among the attributes `keys_*`, `values_*` or `default_*`, as a tensor.
fn listed(call: &Call, prefix: &str) -> Outcome<Option<Tensor>> {
    for kind in ["tensor", "strings", "int64s", "floats", "string", "int64", "float"] {
        let found = match call.attr(&format!("{prefix}_{kind}")) {
            None => continue,
            Some(Attr::Tensor(x)) => x.reshaped([x.len()])?,
            Some(Attr::Strs(list)) => strings(list.clone())?,
            Some(Attr::Ints(list)) => Tensor::vector(list.clone()),
            Some(Attr::Floats(list)) => Tensor::vector(list.clone()),
            Some(Attr::Str(text)) => strings(vec![text.clone()])?,
            Some(Attr::Int(x)) => Tensor::vector(vec![*x]),
            Some(Attr::Float(x)) => Tensor::vector(vec![*x]),
            Some(_) => return Err(Fault::invalid(format!("`{prefix}_{kind}` has a wrong type"))),
        };
        return Ok(Some(found));
    }
    Ok(None)
}

fn strings(list: Vec<Bytes>) -> Outcome<Tensor> {
    Ok(Tensor::strings(vec![list.len()], list)?)
}

/// What the operator says where neither a value nor a default is given.
fn usual(dtype: DataType) -> Outcome<Tensor> {
    match dtype {
        DataType::String => strings(vec![Bytes::from_static(b"_Unused")]),
        DataType::Int64 => Ok(Tensor::vector(vec![-1i64])),
        dtype => stored(dtype, &[1], vec![if dtype.is_float() { -0.0 } else { -1.0 }]),
    }
}

/// The value of the first equal key. NaN equals itself, and zeros of both signs are one.
fn label_encoder(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let missing = || Fault::invalid("the keys or the values are missing");
    let keys = listed(call, "keys")?.ok_or_else(missing)?;
    let values = listed(call, "values")?.ok_or_else(missing)?;
    if keys.len() != values.len() || keys.dtype() != x.dtype() {
        return Err(Fault::invalid(format!("{x:?}, keys {keys:?} and {values:?} do not fit")));
    }
    // A default of another type than the values belongs to another pairing.
    let own = |kind: &str| call.attr(&format!("default_{kind}")).is_some();
    let named = match values.dtype() {
        _ if own("tensor") => true,
        DataType::String => own("string"),
        DataType::Int64 => own("int64"),
        DataType::Float => own("float"),
        _ => false,
    };
    let default = if named { listed(call, "default")? } else { None };
    let default = default.filter(|d| d.dtype() == values.dtype() && d.len() == 1);
    let default = default.map_or_else(|| usual(values.dtype()), Ok)?;
    let places = found_in(x, &keys)?;
    call.room(values.dtype(), x.dims())?;
    celled!(values.dtype(), T => {
        let (all, other) = (<T as Cell>::load(&values), <T as Cell>::load(&default));
        let pick = |place: Option<usize>| place.map_or(other[0].clone(), |at| all[at].clone());
        let cells = places.into_iter().map(pick).collect();
        one(<T as Cell>::store(values.dtype(), x.dims().to_vec(), cells)?)
    })
}

/// Where each element of `x` stands among the keys.
fn found_in(x: &Tensor, keys: &Tensor) -> Outcome<Vec<Option<usize>>> {
    use std::collections::HashMap;
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let texts = |x: &Tensor| -> Outcome<Vec<Vec<u8>>> {
        if let Some(list) = x.as_strings() {
            return Ok(list.iter().map(|s| s.to_vec()).collect());
        }
        if let Some(list) = x.to_i64s() {
            return Ok(list.iter().map(|v| v.to_le_bytes().to_vec()).collect());
        }
        let bits = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 }.to_bits();
        Ok(reals(x)?.into_iter().map(|v| bits(v).to_le_bytes().to_vec()).collect())
    };
    for (i, key) in texts(keys)?.into_iter().enumerate() {
        places.entry(key).or_insert(i);
    }
    Ok(texts(x)?.iter().map(|v| places.get(v).copied()).collect())
}

/// The nodes and leaves of all trees.
struct Trees<'a> {
    splits: Vec<f64>,
    features: &'a [i64],
    modes: Vec<i64>,
    /// Where to go if the condition holds, and where not; whether that is a leaf.
    ways: [(&'a [i64], &'a [i64]); 2],
    /// Whether a missing value counts as holding.
    missing: &'a [i64],
    /// The members of each node that asks for membership.
    members: Vec<Vec<f64>>,
    targets: &'a [i64],
    weights: Vec<f64>,
}

impl<'a> Trees<'a> {
    fn read(call: &Call<'a>) -> Outcome<Trees<'a>> {
        let ints = |name: &str| -> Outcome<&'a [i64]> {
            let absent = || Fault::invalid(format!("attribute `{name}` is missing"));
            call.ints(name)?.ok_or_else(absent)
        };
        let tensor = |name: &str| -> Outcome<&'a Tensor> {
            let absent = || Fault::invalid(format!("attribute `{name}` is missing"));
            call.tensor(name)?.ok_or_else(absent)
        };
        let ways = |side: &str| -> Outcome<(&'a [i64], &'a [i64])> {
            Ok((ints(&format!("nodes_{side}nodeids"))?, ints(&format!("nodes_{side}leafs"))?))
        };
        let trees = Trees {
            splits: reals(tensor("nodes_splits")?)?,
            features: ints("nodes_featureids")?,
            modes: integers(tensor("nodes_modes")?)?,
            ways: [ways("true")?, ways("false")?],
            missing: call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default(),
            members: members(call)?,
            targets: ints("leaf_targetids")?,
            weights: reals(tensor("leaf_weights")?)?,
        };
        let nodes = trees.features.len();
        let [(a, b), (c, d)] = trees.ways;
        let lists = [trees.splits.len(), trees.modes.len(), a.len(), b.len(), c.len(), d.len()];
        if lists != [nodes; 6] || trees.targets.len() != trees.weights.len() {
            return Err(Fault::invalid("the lists of nodes or leaves differ in length"));
        }
        Ok(trees)
    }

    /// Whether the condition of a node holds for a value.
    fn holds(&self, node: usize, members: Option<&Vec<f64>>, v: f64) -> Outcome<bool> {
        let split = self.splits[node];
        if v.is_nan() && self.missing.get(node).is_some_and(|m| *m != 0) {
            return Ok(true);
        }
        Ok(match self.modes[node] {
            0 => v <= split,
            1 => v < split,
            2 => v >= split,
            3 => v > split,
            4 => v == split,
            5 => v != split,
            6 => members.is_some_and(|m| m.contains(&v)),
            other => return Err(Fault::invalid(format!("nodes of mode {other} are not defined"))),
        })
    }

    /// The leaf that a row of features leads to.
    fn leaf(&self, root: i64, row: &[f64], ranks: &[usize]) -> Outcome<usize> {
        let mut node = dims::index(root, self.features.len())?;
        for _ in 0..=self.features.len() {
            let feature = row[dims::index(self.features[node], row.len())?];
            let holds = self.holds(node, self.members.get(ranks[node]), feature)?;
            let (next, is_leaf) = self.ways[usize::from(!holds)];
            if is_leaf[node] != 0 {
                return dims::index(next[node], self.targets.len());
            }
            node = dims::index(next[node], self.features.len())?;
        }
        Err(Fault::invalid("a tree has a cycle"))
    }
}

/// Sets of members, one after the other, each ended by NaN.
fn members(call: &Call) -> Outcome<Vec<Vec<f64>>> {
    let Some(all) = call.tensor("membership_values")? else { return Ok(vec![]) };
    Ok(reals(all)?.split(|v| v.is_nan()).map(<[f64]>::to_vec).collect())
}

fn tree_ensemble(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let [rows, width] = *x.dims() else {
        return Err(Fault::invalid(format!("{x:?} does not have two axes")));
    };
    if call.int("post_transform", 0)? != 0 {
        return Err(Fault::unsupported("transformed results are not computed"));
    }
    let trees = Trees::read(call)?;
    let roots = call.ints("tree_roots")?.unwrap_or_default();
    let targets = dims::size(call.int("n_targets", 1)?)?;
    let how = call.int("aggregate_function", 1)?;
    if !(0..=3).contains(&how) {
        return Err(Fault::invalid(format!("the aggregation {how} is not defined")));
    }
    // The sets of members belong to the nodes that ask for membership, in their order.
    let mut asked = 0;
    let rank = |mode: &i64| {
        asked += usize::from(*mode == 6);
        asked.saturating_sub(1)
    };
    let ranks: Vec<usize> = trees.modes.iter().map(rank).collect();
    let mut y = vec![0f64; call.room(DataType::Double, &[rows, targets])?];
    let values = reals(x)?;
    for (i, sums) in y.chunks_mut(targets.max(1)).enumerate() {
        let row = &values[i * width..(i + 1) * width];
        let mut seen = vec![false; sums.len()];
        for root in roots {
            let leaf = trees.leaf(*root, row, &ranks)?;
            let (target, weight) =
                (dims::index(trees.targets[leaf], targets)?, trees.weights[leaf]);
            sums[target] = match how {
                2 if seen[target] => sums[target].min(weight),
                3 if seen[target] => sums[target].max(weight),
                2 | 3 => weight,
                _ => sums[target] + weight,
            };
            seen[target] = true;
        }
        if how == 0 {
            sums.iter_mut().for_each(|s| *s /= roots.len().max(1) as f64);
        }
    }
    one(stored(x.dtype(), &[rows, targets], y)?)
}

#[cfg(test)]
mod tests {
    use crate::testing::{reals, run, try_run};
    use bytes::Bytes;
    use onnxd_ir::{Attr, Tensor};

    #[test]
    fn columns_and_thresholds() {
        let x = Tensor::from_vec([2, 3], vec![0i32, 1, 2, 10, 11, 12]);
        let picked = Tensor::vector(vec![2i64, 0]);
        let y = run("ai.onnx.ml.ArrayFeatureExtractor", 1, &[], &[&x, &picked]);
        assert_eq!((y.dims(), y.to_i64s().unwrap()), (&[2, 2][..], vec![2, 0, 12, 10]));
        let outside = Tensor::vector(vec![3i64]);
        assert!(try_run("ai.onnx.ml.ArrayFeatureExtractor", 1, &[], &[&x, &outside]).is_err());
        let x = Tensor::vector(vec![0.5f32, 1.0, -2.0]);
        let threshold = [("threshold", Attr::Float(0.5))];
        assert_eq!(reals(&run("ai.onnx.ml.Binarizer", 1, &threshold, &[&x])), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn labels() {
        let words = |list: &[&'static str]| list.iter().map(|s| Bytes::from(*s)).collect();
        let x = Tensor::strings(vec![3], words(&["b", "x", "a"])).unwrap();
        let attrs = [
            ("keys_strings", Attr::Strs(words(&["a", "b"]))),
            ("values_int64s", Attr::Ints(vec![5, 6])),
            ("default_int64", Attr::Int(9)),
        ];
        let y = run("ai.onnx.ml.LabelEncoder", 2, &attrs, &[&x]);
        assert_eq!(y.to_i64s().unwrap(), [6, 9, 5]);
        let y = run("ai.onnx.ml.LabelEncoder", 2, &attrs[..2], &[&x]);
        assert_eq!(y.to_i64s().unwrap(), [6, -1, 5]);
        let x = Tensor::vector(vec![f32::NAN, -0.0]);
        let attrs = [
            ("keys_floats", Attr::Floats(vec![0.0, f32::NAN])),
            ("values_floats", Attr::Floats(vec![1.0, 2.0])),
        ];
        assert_eq!(reals(&run("ai.onnx.ml.LabelEncoder", 4, &attrs, &[&x])), [2.0, 1.0]);
    }

    #[test]
    fn a_tree_with_a_split_and_a_set() {
        // x0 <= 1 leads to leaf 0, else x1 among {3, 4} to leaf 1, else to leaf 2.
        let attrs = [
            ("tree_roots", Attr::Ints(vec![0])),
            ("n_targets", Attr::Int(2)),
            ("nodes_featureids", Attr::Ints(vec![0, 1])),
            ("nodes_splits", Attr::Tensor(Tensor::vector(vec![1f32, 0.0]))),
            ("nodes_modes", Attr::Tensor(Tensor::vector(vec![0u8, 6]))),
            ("nodes_truenodeids", Attr::Ints(vec![0, 1])),
            ("nodes_trueleafs", Attr::Ints(vec![1, 1])),
            ("nodes_falsenodeids", Attr::Ints(vec![1, 2])),
            ("nodes_falseleafs", Attr::Ints(vec![0, 1])),
            ("leaf_targetids", Attr::Ints(vec![0, 1, 1])),
            ("leaf_weights", Attr::Tensor(Tensor::vector(vec![5f32, 7.0, -1.0]))),
            ("membership_values", Attr::Tensor(Tensor::vector(vec![3f32, 4.0, f32::NAN]))),
        ];
        let x = Tensor::from_vec([3, 2], vec![1f32, 0.0, 2.0, 4.0, 2.0, 5.0]);
        let y = run("ai.onnx.ml.TreeEnsemble", 5, &attrs, &[&x]);
        assert_eq!(reals(&y), [5.0, 0.0, 0.0, 7.0, 0.0, -1.0]);
        let mut cyclic = attrs.clone();
        (cyclic[5].1, cyclic[6].1) = (Attr::Ints(vec![0, 1]), Attr::Ints(vec![0, 0]));
        assert!(try_run("ai.onnx.ml.TreeEnsemble", 5, &cyclic, &[&x]).is_err());
    }
}
