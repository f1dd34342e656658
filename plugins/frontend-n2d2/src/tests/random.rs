//! Random networks: whatever they ask for, they are refused or become valid models.

use onnxd_plugin_sdk::ir::Dim;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Types of layers, each with settings that it needs.
const LAYERS: &[&str] = &[
    "Activation\nActivationFunction=Swish",
    "BatchNorm",
    "Conv\nNbOutputs=2\nKernelWidth=1\nKernelHeight=1",
    "Conv\nNbOutputs=4\nKernelDims=2 1\nPaddingX=1\nMapping.Size=2",
    "Deconv\nNbOutputs=2\nKernelDims=2 3",
    "Deconv\nNbOutputs=2\nKernelDims=2 2\nMapping.ChannelsPerGroup=1",
    "Dropout",
    "ElemWise\nOperation=Sum",
    "ElemWise\nOperation=Prod",
    "ElemWise\nOperation=EuclideanSum",
    "Fc\nNbOutputs=2",
    "LRN",
    "Normalize\nNorm=L2",
    "Padding\nTopPadding=1\nRightPadding=2",
    "Pool\nPooling=Max\nNbOutputs=2\nPoolDims=1 1",
    "Pool\nPooling=Max\nNbOutputs=4\nPoolDims=2 1\nPaddingX=2",
    "Pool\nPooling=Average\nNbOutputs=3\nPoolDims=1 2\nPadding=1",
    "Reshape\nDims=-1 1 1",
    "Reshape\nDims=1 -1 0",
    "Resize\nMode=Bilinear\nOutputWidth=3\nOutputHeight=2",
    "Resize\nMode=NearestNeighbor\nOutputWidth=4\nOutputHeight=5",
    "Scaling\nFactor=0.5",
    "Softmax",
    "Threshold\nThreshold=0.1",
    "Transpose\nPerm=2 0 1",
    "Transpose\nPerm=1 0 2",
];

/// Settings with numbers; those of other types of layers have no effect.
const KEYS: &[&str] = &[
    "NbOutputs", "KernelSize", "KernelDims", "Stride", "StrideX", "Padding", "PaddingY",
    "DilationX", "SubSample", "PoolSize", "Mapping.Size", "Mapping.NbGroups",
    "Mapping.ChannelsPerGroup", "Mapping.OffsetX", "GroupSize", "LeftPadding", "Dims", "Perm",
    "Factor", "OutputWidth", "Weights", "Shifts", "InputOffsetX", "InputWidth", "N",
    "OutputsRemap",
];
const VALUES: &[&str] = &[
    "1", "1", "1", "2", "2", "2", "3", "0", "-1", "7", "1 2", "2 1 0", "0 -1 0", "0.5", "1:1",
    "0:2,1:2", "99999999", "x",
];
const ACTIVATIONS: &[&str] = &[
    "",
    "ActivationFunction=Linear\n",
    "ActivationFunction=Rectifier\nActivationFunction.Clipping=2\n",
    "ActivationFunction=Tanh\nActivationFunction.Alpha=0.5\n",
];

fn layer() -> impl Strategy<Value = String> {
    let more = proptest::collection::vec((select(KEYS), select(VALUES)), 0..2);
    (select(LAYERS), select(ACTIVATIONS), more).prop_map(|(kind, activation, more)| {
        let more = more.iter().map(|(key, value)| format!("{key}={value}\n"));
        format!("Type={kind}\n{activation}{}", more.collect::<String>())
    })
}

/// Absurd sizes are not refused as long as nothing computes them; that is not tried here.
fn small(imported: Imported) -> Result<Imported, Diagnostics> {
    const NUMBERS_MAX: i64 = 1 << 16;
    let graph = &imported.model.graph;
    let shapes = graph.value_ids().filter_map(|v| graph[v].shape());
    let mut counts = shapes.map(|s| s.iter().filter_map(Dim::known).product::<i64>());
    match counts.all(|count| count <= NUMBERS_MAX) {
        true => Ok(imported),
        false => Err(Diagnostics::default()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_networks(
        layers in proptest::collection::vec((layer(), 0..9_usize), 1..6),
        plane in (1..4_usize, 1..4_usize),
    ) {
        let mut ini = format!("[sp]\nSizeX={}\nSizeY={}\nNbChannels=2\n", plane.0, plane.1);
        for (index, (text, link)) in layers.iter().enumerate() {
            let input = match index.checked_sub(1) {
                None => "sp".to_owned(),
                Some(before) if *link == 0 => format!("l{before},sp"),
                Some(before) if *link == 1 => format!("l{before},l{}", before / 2),
                Some(before) => format!("l{before}"),
            };
            ini += &format!("[l{index}]\nInput={input}\n{text}[l{index}.Target]\n");
        }
        // What is accepted is verified, and runs; sizes agree with what was declared.
        if let Ok(imported) = random(&ini).and_then(small) {
            let graph = &imported.model.graph;
            let declared: Vec<Vec<i64>> = graph.outputs().iter().map(|v| {
                let shape = graph[*v].ty.as_ref().unwrap().shape().unwrap();
                shape[1..].iter().map(|d| d.known().unwrap()).collect()
            }).collect();
            let count = 2 * plane.0 * plane.1;
            let x: Vec<f32> = (0..count).map(|i| i as f32 / count as f32 - 0.3).collect();
            for ((name, dims, _), declared) in outputs(&imported, &x).iter().zip(declared) {
                let dims: Vec<i64> = dims[1..].iter().map(|n| *n as i64).collect();
                prop_assert_eq!(dims, declared, "{}: {}", name, ini);
            }
        }
    }
}
