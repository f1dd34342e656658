//! Normalization in training mode also moves the running statistics of its module, which no signature says.

use super::run::ProgramRunner;
use crate::machine::{Item, Result};

impl ProgramRunner<'_, '_> {
    /// Writes the running statistics that a call moves.
    pub(super) fn move_statistics(&self, name: &str, arguments: &[Item]) -> Result<()> {
        let plain = name.trim_start_matches("aten::");
        let [x, _, _, mean, var, Item::Bool(true), Item::Float(momentum), ..] = arguments else {
            return Ok(());
        };
        match plain {
            "batch_norm"
            | "native_batch_norm"
            | "_native_batch_norm_legit"
            | "cudnn_batch_norm"
            | "_batch_norm_impl_index" => {}
            "instance_norm" if matches!((mean, var), (Item::None, Item::None)) => return Ok(()),
            "instance_norm" => {
                let message = "Running statistics of instances cannot be converted.";
                let help = "Export the program in evaluation mode.";
                let found = self.unsupported(message);
                return Err(found.help(help));
            }
            _ => return Ok(()),
        }
        let (Item::Tensor(mean), Item::Tensor(var)) = (mean, var) else { return Ok(()) };
        let machine = self.machine;
        let rank = machine.rank(machine.var_of(x)?)? as i64;
        let dims = Item::ints((0..rank).filter(|dim| *dim != 1));
        let unbiased = vec![("correction".into(), Item::Int(1))];
        let both = vec![x.clone(), dims];
        let given = machine.call("aten::var_mean", Some("correction"), both, unbiased)?;
        let items = given.items().unwrap_or_default();
        let [new_var, new_mean] = items.as_slice() else { return Ok(()) };
        for (running, new) in [(mean, new_mean), (var, new_var)] {
            let old = vec![Item::Tensor(running.clone()), Item::Float(1.0 - momentum)];
            let old = machine.call("aten::mul", Some("Scalar"), old, vec![])?;
            let share = vec![("alpha".into(), Item::Float(*momentum))];
            let moved = machine.call("aten::add", Some("Tensor"), vec![old, new.clone()], share)?;
            if !moved.has_hole() {
                machine.write(running, machine.var_of(&moved)?)?;
            }
        }
        Ok(())
    }
}
