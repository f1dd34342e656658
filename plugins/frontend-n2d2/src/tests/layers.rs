//! What each type of layer computes, on values that can be checked by hand.

use super::*;

const NINE: [f32; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
const W: &str = "weights/y_weights.syntxt";
const B: &str = "weights/y_biases.syntxt";

#[test]
fn conv() {
    let files = [(W, "1 2 3 4"), (B, "10")];
    let y = [47.0, 57.0, 77.0, 87.0];
    check_with([1, 3, 3], "Type=Conv\nNbOutputs=1\nKernelSize=2", &files, &NINE, &[1, 2, 2], &y);
    let dilated = "Type=Conv\nNbOutputs=1\nKernelDims=2 2\nDilation=2";
    let y = [1.0 + 6.0 + 21.0 + 36.0 + 10.0];
    check_with([1, 3, 3], dilated, &files, &NINE, &[1, 1, 1], &y);
}

#[test]
fn conv_geometry() {
    let files = [(W, "2")];
    let one = "Type=Conv\nNbOutputs=1\nKernelDims=1 1\nConfigSection=plain\n";
    let row = [1.0, 2.0, 3.0, 4.0, 5.0];
    for (more, y) in [
        ("SubSampleX=2", &[6.0, 14.0, 10.0][..]),
        ("SubSampleDims=9 3", &[30.0]),
        ("StrideX=2\nSubSampleX=2", &[8.0, 10.0]),
        ("PaddingX=1", &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 0.0]),
        ("PaddingDims=-1 0", &[4.0, 6.0, 8.0]),
        ("InputOffsetX=1\nInputWidth=2", &[4.0, 6.0]),
        ("InputOffsetX=3", &[8.0, 10.0]),
    ] {
        check_with([1, 1, 5], &format!("{one}{more}"), &files, &row, &[1, 1, y.len()], y);
    }
}

/// Blocks are summed before the bias comes once.
#[test]
fn sub_sampling() {
    let files = [(W, "1"), (B, "10")];
    let layer = "Type=Conv\nNbOutputs=1\nKernelSize=1\nSubSample=2\nActivationFunction=Rectifier";
    check_with([1, 3, 3], layer, &files, &NINE, &[1, 2, 2], &[22.0, 19.0, 25.0, 19.0]);
    let least = NINE.map(|x| x - 20.0);
    check_with([1, 3, 3], layer, &files, &least, &[1, 2, 2], &[0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn conv_maps() {
    let one = "Type=Conv\nNbOutputs=2\nKernelSize=1\nConfigSection=plain\n";
    for (more, weights, y) in [
        ("", "1 2 3 4", [21.0, 43.0]),
        ("Mapping.NbGroups=2", "3 5", [3.0, 50.0]),
        ("Mapping(sp)=1 0 \\\n 1 1", "2 3 5", [32.0, 50.0]),
        ("Mapping(sp)=0 1 \\\n 0 1", "2 3", [0.0, 32.0]),
    ] {
        let files = [(W, weights)];
        check_with([2, 1, 1], &format!("{one}{more}"), &files, &[1.0, 10.0], &[2, 1, 1], &y);
    }
}

#[test]
fn deconv() {
    let layer = "Type=Deconv\nNbOutputs=1\nKernelDims=2 1\nStrideX=2\nConfigSection=plain";
    let y = [1.0, 10.0, 2.0, 20.0];
    check_with([1, 1, 2], layer, &[(W, "1 10")], &[1.0, 2.0], &[1, 1, 4], &y);
    let layer = "Type=Deconv\nNbOutputs=2\nKernelSize=1";
    let files = [(W, "1 2 3 4"), (B, "0 1")];
    check_with([2, 1, 1], layer, &files, &[1.0, 10.0], &[2, 1, 1], &[21.0, 44.0]);
}

#[test]
fn fc() {
    let files = [(W, "1 10 100 1000"), (B, "0.5")];
    let layer = "Type=Fc\nNbOutputs=1";
    check_with([2, 1, 2], layer, &files, &[1.0, 2.0, 3.0, 4.0], &[1], &[4321.5]);
}

#[test]
fn pool() {
    let pool = "Type=Pool\nMapping.Size=1\n";
    for (more, y) in [
        ("Pooling=Max\nPoolDims=2 2\nNbOutputs=1", &[5.0, 6.0, 8.0, 9.0][..]),
        ("Pooling=Max\nPoolDims=2 2\nStride=2\nNbOutputs=1", &[5.0]),
        ("Pooling=Average\nPoolWidth=3\nPoolHeight=3\nNbOutputs=1", &[5.0]),
        // The divisor is 4 also at the corners.
        ("Pooling=Average\nPoolSize=2\nPadding=1\nStride=2\nNbOutputs=1", &[0.25, 1.25, 2.75, 7.0]),
    ] {
        let side = y.len().isqrt();
        check([1, 3, 3], &format!("{pool}{more}"), &NINE, &[1, side, side], y);
    }
    let wide = "Type=Pool\nMapping.Size=1\nNbOutputs=1\nPoolSize=1\nPaddingX=1\n";
    check([1, 1, 1], &format!("{wide}Pooling=Average"), &[-4.0], &[1, 1, 3], &[0.0, -4.0, 0.0]);
    let y = [f32::MIN, -4.0, f32::MIN];
    check([1, 1, 1], &format!("{wide}Pooling=Max"), &[-4.0], &[1, 1, 3], &y);
    // Windows at -5, -2, 1, 4, 7; the first and the last two see nothing of the image.
    let far = "Type=Pool\nMapping.Size=1\nNbOutputs=1\nPoolDims=3 1\nStrideX=3\nPaddingX=5\n";
    let x = [3.0, 6.0, 9.0];
    let y = [0.0, 1.0, 5.0, 0.0];
    check([1, 1, 3], &format!("{far}Pooling=Average"), &x, &[1, 1, 4], &y);
    let y = [f32::MIN, 3.0, 9.0, f32::MIN];
    check([1, 1, 3], &format!("{far}Pooling=Max"), &x, &[1, 1, 4], &y);
    let cut = "Type=Pool\nMapping.Size=1\nNbOutputs=1\nPoolDims=1 1\nPaddingX=-1\nPooling=Max";
    check([1, 1, 3], cut, &x, &[1, 1, 1], &[6.0]);
}

#[test]
fn pool_over_channels() {
    let x = [1.0, 5.0, 2.0, 9.0];
    for (more, max, average) in [
        ("NbOutputs=1", &[9.0][..], &[4.25][..]),
        ("NbOutputs=2", &[9.0, 9.0], &[4.25, 4.25]),
        ("NbOutputs=2\nMapping.NbGroups=2", &[5.0, 9.0], &[3.0, 5.5]),
        ("NbOutputs=2\nMapping(sp)=1 0  1 0  1 0  0 1", &[5.0, 9.0], &[8.0 / 3.0, 9.0]),
        ("NbOutputs=1\nMapping(sp)=0 0 1 0", &[2.0], &[2.0]),
        ("NbOutputs=2\nMapping(sp)=0 1  0 0  1 0  0 0", &[2.0, 1.0], &[2.0, 1.0]),
    ] {
        let dims = [max.len(), 1, 1];
        let pool = format!("Type=Pool\nPoolDims=1 1\n{more}\n");
        check([4, 1, 1], &format!("{pool}Pooling=Max"), &x, &dims, max);
        check([4, 1, 1], &format!("{pool}Pooling=Average"), &x, &dims, average);
    }
}

#[test]
fn batch_norm() {
    let files = [
        ("weights/y_scales.syntxt", "3 1"),
        ("weights/y_biases.syntxt", "1 0"),
        ("weights/y_means.syntxt", "1 0"),
        ("weights/y_variances.syntxt", "3 0"),
    ];
    let layer = "Type=BatchNorm\nNbOutputs=2\nConfigSection=bn\n[bn]\nEpsilon=1";
    check_with([2, 1, 1], layer, &files, &[2.0, 7.0], &[2, 1, 1], &[2.5, 7.0]);
}

#[test]
fn elementwise() {
    for (more, x, y) in [
        ("Operation=Sum\nInput=sp,sp", -3.0, -6.0),
        ("Operation=Sum\nInput=sp,sp,sp", -3.0, -9.0),
        ("Operation=Sum\nInput=sp,sp\nWeights=2 10\nShifts=1 0.5", 3.0, 37.5),
        // Lists that are too short go on with ones and zeros.
        ("Operation=Sum\nInput=sp,sp\nWeights=2\nShifts=1", 3.0, 10.0),
        ("Operation=Sum\nInput=sp,sp,sp\nCoeffMode=PerLayer\nWeights=2 5\nShifts=1", 3.0, 25.0),
        ("Operation=AbsSum\nInput=sp,sp\nWeights=2", -3.0, 9.0),
        ("Operation=EuclideanSum\nInput=sp,sp\nWeights=0", -3.0, 3.0),
        ("Operation=AbsSum\nInput=sp,sp\nWeights=2 -1\nShifts=5 5", -3.0, 3.0),
        ("Operation=EuclideanSum\nInput=sp,sp\nWeights=1 2\nShifts=0 2", -3.0, 7.0),
        ("Operation=Prod\nInput=sp,sp,sp\nWeights=2 2 2", 2.0, 8.0),
        ("Operation=Max\nInput=sp,neg\n[neg]\nType=Scaling\nFactor=-1\nInput=sp", -2.0, 2.0),
    ] {
        let layer = format!("Type=ElemWise\nNbOutputs=1\n{more}");
        check([1, 1, 1], &layer, &[x], &[1, 1, 1], &[y]);
    }
    let layer = "Type=ElemWise\nNbOutputs=2\nOperation=Sum\nInput=sp,sp\nCoeffMode=PerChannel\n\
                 Weights=2 3\nShifts=1 0";
    check([2, 1, 1], layer, &[1.0, 2.0], &[2, 1, 1], &[6.0, 12.0]);
    let layer = "Type=ElemWise\nNbOutputs=2\nOperation=Sum\nInput=sp,sp\nCoeffMode=PerChannel\n\
                 Weights=2\nShifts=1";
    check([2, 1, 1], layer, &[1.0, 2.0], &[2, 1, 1], &[6.0, 4.0]);
}

#[test]
fn softmax() {
    let x = [0.0, 1.0, 3_f32.ln(), 1.0];
    let y = [0.25, 0.5, 0.75, 0.5];
    check([2, 1, 2], "Type=Softmax\nNbOutputs=2\nWithLoss=1", &x, &[2, 1, 2], &y);
    let y = [0.25, 0.75, 0.5, 0.5];
    let x = [0.0, 3_f32.ln(), 1.0, 1.0];
    check([4, 1, 1], "Type=Softmax\nGroupSize=2", &x, &[4, 1, 1], &y);
}

#[test]
fn borders_and_axes() {
    let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    for (layer, dims, y) in [
        ("Type=Padding\nTopPadding=-1\nLeftPadding=1", [1, 1, 4], &[0.0, 4.0, 5.0, 6.0][..]),
        ("Type=Padding\nBottomPadding=-1\nRightPadding=-2", [1, 1, 1], &[1.0]),
        ("Type=Reshape\nDims=-1 1 0", [1, 1, 6], &six),
        ("Type=Reshape\nDims=1 2 3", [3, 2, 1], &six),
        ("Type=Transpose\nPerm=1 0 2", [1, 3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]),
        ("Type=Transpose\nPerm=2 0 1 3", [2, 3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("Type=Transpose\nPerm=2 1 0", [3, 2, 1], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]),
    ] {
        check([1, 2, 3], layer, &six, &dims, y);
    }
}

#[test]
fn resize() {
    for (mode, width, y) in [
        ("Mode=NearestNeighbor", 4, &[1.0, 1.0, 2.0, 2.0][..]),
        ("Mode=NearestNeighbor", 3, &[1.0, 1.0, 2.0]),
        ("Mode=NearestNeighbor", 1, &[1.0]),
        ("Mode=Bilinear", 3, &[1.0, 1.5, 2.0]),
        ("Mode=BilinearTF\nConfigSection=c\n[c]\nAlignCorners=0", 4, &[1.0, 1.5, 2.0, 2.0]),
        ("Mode=Bilinear\nConfigSection=c\n[c]\nAlignCorners=0", 4, &[1.0, 1.25, 1.75, 2.0]),
    ] {
        let layer = format!("Type=Resize\nOutputWidth={width}\nOutputHeight=1\n{mode}");
        check([1, 1, 2], &layer, &[1.0, 2.0], &[1, 1, width], y);
    }
}

#[test]
fn scales_and_norms() {
    let x = [3.0, -4.0];
    let lrn = "Type=LRN\nConfigSection=c\n[c]\nN=1\nAlpha=1\nBeta=1\nK=1";
    for (layer, y) in [
        ("Type=Scaling\nFactor=0.5", [1.5, -2.0]),
        ("Type=Scaling\nFactor=2 3", [6.0, -12.0]),
        ("Type=Threshold\nThreshold=1", [1.0, 0.0]),
        ("Type=Threshold\nThreshold=1\nConfigSection=c\n[c]\nMaxValue=5", [5.0, 0.0]),
        ("Type=Threshold\nThreshold=1\nConfigSection=c\n[c]\nOperation=ToZero", [3.0, 0.0]),
        ("Type=Threshold\nThreshold=1\nConfigSection=c\n[c]\nOperation=Truncate", [1.0, -4.0]),
        ("Type=Normalize\nNbOutputs=2\nNorm=L2", [0.6, -0.8]),
        ("Type=Normalize\nNbOutputs=2\nNorm=L1", [3.0 / 7.0, -4.0 / 7.0]),
        (lrn, [3.0 / 10.0, -4.0 / 17.0]),
    ] {
        check([2, 1, 1], layer, &x, &[2, 1, 1], &y);
    }
}

#[test]
fn activations() {
    let x = [-2.0, 0.5, 8.0];
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    for (function, y) in [
        ("Linear", x),
        ("Linear\nActivationFunction.Clipping=1", [-1.0, 0.5, 1.0]),
        ("Rectifier", [0.0, 0.5, 8.0]),
        ("Rectifier\nActivationFunction.Clipping=6", [0.0, 0.5, 6.0]),
        ("Rectifier\nActivationFunction.LeakSlope=0.5", [-1.0, 0.5, 8.0]),
        (
            "Rectifier\nActivationFunction.LeakSlope=0.5\nActivationFunction.Clipping=6",
            [-1.0, 0.5, 6.0],
        ),
        ("Saturation", [-1.0, 0.5, 1.0]),
        ("Saturation\nActivationFunction.Threshold=3", [-2.0, 0.5, 3.0]),
        ("Tanh", x.map(f32::tanh)),
        ("Tanh\nActivationFunction.Alpha=0.5", x.map(|x| (0.5 * x).tanh())),
        ("TanhLeCun", x.map(|x| (1.143_933_3 * x).tanh())),
        ("Logistic", x.map(sigmoid)),
        ("LogisticWithLoss", x.map(sigmoid)),
        ("Softplus", x.map(|x| x.exp().ln_1p())),
        ("Swish", x.map(|x| x * sigmoid(x))),
    ] {
        let layer = format!("Type=Activation\nActivationFunction={function}");
        let y = if function == "Linear" { x } else { y };
        check([3, 1, 1], &layer, &x, &[3, 1, 1], &y);
    }
    check([3, 1, 1], "Type=Activation", &x, &[3, 1, 1], &x.map(f32::tanh));
}
