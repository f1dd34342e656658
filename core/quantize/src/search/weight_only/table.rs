//! Tables in floating point of 16 bits, whose rows are made those of 32 bits once they are read. Numbers that 16 bits
//! are too few for keep their table as it is.

use super::place::{BlockedWeight, floats};
use super::power::Power;
use crate::graph::edit;
use half::f16;
use onnxd_ir::{DataType, Graph, NodeId, Opsets, ValueId};
use onnxd_proto::onnxd::QuantizedTensor;
use std::collections::BTreeMap;

/// Elements that are looked at together.
const TOGETHER: usize = 1 << 20;

/// The greatest number of 16 bits.
const MAX: f32 = 65504.0;

/// The signal-to-noise ratio in dB that normal numbers are beyond by far: float16 rounds in the eleventh bit.
const LEAST_DB: f64 = 60.0;

/// A table of 16 bits that was made, and its signal-to-noise ratio in dB.
pub(crate) type HalfTable = (ValueId, Option<f64>);

/// Lets a node that reads rows of a table read one of 16 bits; gives its ratio, and the table's row of the report if it
/// is new.
pub(crate) fn write(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    place: &BlockedWeight,
    known: &mut BTreeMap<ValueId, HalfTable>,
) -> Result<(Option<f64>, Option<QuantizedTensor>), String> {
    let indices = g[id].input(1).ok_or("it has no indices")?;
    let ((half, db), row) = match known.get(&place.w) {
        Some(half) => (*half, None),
        None => {
            let name = g[place.w].name.clone();
            let data = g.constant(place.w).ok_or("its weights are computed")?;
            let (mut ends, mut power) = ((0f32, 0f32), Power::default());
            for first in (0..data.len()).step_by(TOGETHER) {
                let values = floats(data, first..data.len().min(first + TOGETHER))?;
                ends = values.iter().fold(ends, |(lo, hi), x| (lo.min(*x), hi.max(*x)));
                power = values.iter().fold(power, |power, x| {
                    let [signal, noise] = [*x, x - f16::from_f32(*x).to_f32()].map(f64::from);
                    power.and(Power { signal: signal * signal, noise: noise * noise })
                });
            }
            if ends.1.max(-ends.0) > MAX {
                return Err("its table has numbers beyond float16".to_owned());
            }
            let db = power.db();
            if let Some(db) = db.filter(|db| *db < LEAST_DB) {
                return Err(format!(
                    "its table has numbers too small for float16: {db:.1} dB would be left"
                ));
            }
            let half = data.cast(DataType::Float16).map_err(|e| e.to_string())?;
            let row = QuantizedTensor {
                name: name.clone(),
                element_type: DataType::Float16.to_string(),
                min: Some(ends.0.into()),
                max: Some(ends.1.into()),
                method: "16 bits".to_owned(),
                ..QuantizedTensor::default()
            };
            let half = g.add_initializer(&format!("{name}_float16"), half);
            known.insert(place.w, (half, db));
            ((half, db), Some(row))
        }
    };
    edit::stand_in(g, opsets, id, |b, _| {
        let rows = b.gather(half, indices).axis(0).role("half").one()?;
        Ok([b.cast(rows, place.dtype)?])
    })?;
    g.drop_unread([place.w]);
    Ok((db, row))
}
