//! Operators of TensorFlow that belong to no other family and have no counterpart in ONNX.

use super::Source;
use onnxd_plugin_sdk::lower::Table;

/// Reasons, and the operators that share each, separated by blanks.
const GROUPS: [(&str, &str); 12] = [
    (
        "it trains the network; export it in inference mode",
        "AccumulatorNumAccumulated AccumulatorSetGlobalStep ApplyAdaMax ApplyAdadelta ApplyAdagrad \
            ApplyAdagradDA ApplyAdagradV2 ApplyAdam ApplyAddSign ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 \
            ApplyGradientDescent ApplyMomentum ApplyPowerSign ApplyProximalAdagrad ApplyProximalGradientDescent \
            ApplyRMSProp ConditionalAccumulator CropAndResizeGradBoxes CropAndResizeGradImage \
            Dilation2DBackpropInput FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVarsGradient \
            FakeQuantWithMinMaxVarsPerChannelGradient FusedBatchNormGradV3 MaxPoolGradGradWithArgmax \
            MaxPoolGradWithArgmax RaggedTensorToVariantGradient ResourceAccumulatorApplyGradient \
            ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep ResourceConditionalAccumulator \
            SdcaShrinkL1 SparseAccumulatorApplyGradient SparseConditionalAccumulator \
            StoreMinibatchStatisticsInFdo TensorArrayGradV3 TensorArrayGradWithShape",
    ),
    (
        "it computes on integers whose ranges are tensors of the graph; export the float network and quantize it",
        "QuantizeDownAndShrinkRange QuantizedAdd QuantizedAvgPool QuantizedBatchNormWithGlobalNormalization \
            QuantizedBiasAdd QuantizedConcat QuantizedConv2D QuantizedConv2DAndRelu \
            QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize QuantizedConv2DPerChannel \
            QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize \
            QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize \
            QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize \
            QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias QuantizedDepthwiseConv2DWithBiasAndRelu \
            QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedInstanceNorm QuantizedMatMul \
            QuantizedMatMulWithBias QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu \
            QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize QuantizedMaxPool \
            QuantizedMul QuantizedRelu QuantizedRelu6 QuantizedReluX QuantizedReshape QuantizedResizeBilinear \
            RequantizationRange RequantizationRangePerChannel Requantize RequantizePerChannel UniformRequantize",
    ),
    (
        "it changes a variable or stack that stays between runs; export it with its state as input and output",
        "CountUpTo DestroyTemporaryVariable InplaceAdd InplaceSub InplaceUpdate ResourceCountUpTo \
            ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul \
            ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub \
            ResourceScatterNdUpdate ResourceScatterSub ResourceScatterUpdate ResourceStridedSliceAssign \
            ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd ScatterNdMax ScatterNdMin \
            ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate StackClose StackCloseV2 StackPop StackPopV2 \
            StackPush StackPushV2 StackV2 StridedSliceAssign TemporaryVariable",
    ),
    (
        "ONNX has no sparse tensors as values; make the tensor dense before",
        "AddManySparseToTensorsMap AddSparseToTensorsMap CSRSparseMatrixComponents CSRSparseMatrixToDense \
            CSRSparseMatrixToSparseTensor DenseCountSparseOutput DenseToCSRSparseMatrix \
            DenseToSparseSetOperation EditDistance SetSize SparseAdd SparseBincount SparseConcat \
            SparseCountSparseOutput SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseMatrixAdd \
            SparseMatrixMatMul SparseMatrixMul SparseMatrixNNZ SparseMatrixOrderingAMD SparseMatrixSoftmax \
            SparseMatrixSparseCholesky SparseMatrixSparseMatMul SparseMatrixTranspose SparseMatrixZeros \
            SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseReorder \
            SparseSlice SparseSoftmax SparseSparseMaximum SparseSparseMinimum SparseSplit \
            SparseTensorToCSRSparseMatrix SparseToSparseSetOperation TakeManySparseFromTensorsMap",
    ),
    (
        "ONNX has no tensors with rows of any length as values; make the tensor dense before",
        "RaggedBincount RaggedCountSparseOutput RaggedFillEmptyRows RaggedRange RaggedTensorFromVariant \
            RaggedTensorToSparse RaggedTensorToVariant",
    ),
    (
        "it reads records from files or a pipeline",
        "CompressElement ComputeBatchSize DistributedSave FileSystemSetConfiguration GetElementAtIndex \
            GetOptions ImmutableConst LoadAndRemapMatrix ReaderNumRecordsProduced ReaderNumRecordsProducedV2 \
            ReaderNumWorkUnitsCompleted ReaderNumWorkUnitsCompletedV2 ReaderReset ReaderResetV2 \
            ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState ReaderSerializeStateV2 RecordInput \
            UncompressElement WindowOp",
    ),
    (
        "it moves data to or from an accelerator",
        "CheckPinned ConvertToCooTensor ConvertToListOfSparseCoreCooTensors \
            ConvertToSparseCoreCsrWrappedCooTensor CopyHost DeviceIndex GetMinibatchSplitsWithPhysicalReplica \
            GetMinibatchesInCsrWithPhysicalReplica GetStatsFromListOfSparseCoreCooTensors GlobalIterId \
            InfeedDequeue InfeedDequeueTuple InfeedEnqueue InfeedEnqueuePrelinearizedBuffer InfeedEnqueueTuple \
            OutfeedDequeue OutfeedDequeueTuple OutfeedDequeueTupleV2 OutfeedDequeueV2 OutfeedEnqueue \
            OutfeedEnqueueTuple Prelinearize PrelinearizeTuple SortListOfSparseCoreCooTensors SyncDevice \
            WorkerHeartbeat",
    ),
    (
        "it belongs to a session, and not to the network",
        "AnonymousMemoryCache AnonymousRandomSeedGenerator AnonymousSeedGenerator ConsumeMutexLock \
            DeleteMemoryCache DeleteRandomSeedGenerator DeleteSeedGenerator DeleteSessionTensor \
            DummyIterationCounter DummyMemoryCache DummySeedGenerator ExperimentalStatsAggregatorHandle \
            ExperimentalThreadPoolHandle Fact FakeParam Fingerprint GetSessionHandle GetSessionHandleV2 \
            GetSessionTensor MutexLock MutexV2 ThreadPoolHandle Timestamp Unbatch",
    ),
    (
        "it is not converted in this form; export the network with a newer TensorFlow",
        "RefIdentity RefSelect TensorArrayConcat TensorArrayConcatV2 TensorArrayGather TensorArrayPack \
            TensorArrayRead TensorArrayScatter TensorArrayScatterV2 TensorArraySize TensorArraySplit \
            TensorArraySplitV2 TensorArrayUnpack TensorArrayWrite TensorListPushBackBatch",
    ),
    (
        "it is not converted, though operators of ONNX could say it",
        "ApproxTopK CompositeTensorVariantFromComponents CompositeTensorVariantToComponents Conv3DBackpropInput \
            IsotonicRegression MapDefun NearestNeighbors",
    ),
    (
        "it is not converted, though operators of ONNX could say it",
        "Conv Copy For RemoteCall Stack",
    ),
    ("it stands beside the network, and not in it", "Abort ImportEvent QueueClose QueueCloseV2"),
];

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let each =
        GROUPS.iter().flat_map(|(why, ops)| ops.split_whitespace().map(move |op| (op, *why)));
    each.fold(table, |table, (op, why)| table.refused(op, why))
}

#[cfg(test)]
mod tests {
    use crate::ops::{Source, table};
    use onnxd_plugin_sdk::ir::{Graph, Opsets};
    use onnxd_plugin_sdk::lower::{Driver, Fallback, Lowering};

    /// Operators that the reader of graphs runs itself.
    const RUN: &str = "Assert Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp Case \
        CheckNumericsV2 Const ControlTrigger DestroyResourceOp DisableCopyOnRead EmptyTensorList Enter \
        Exit If IsVariableInitialized LoopCond Merge NextIteration NoOp PartitionedCall Placeholder \
        PlaceholderV2 PrintV2 ReadVariableOp RefEnter RefExit RefMerge RefNextIteration RefSwitch \
        ResourceGather ResourceGatherNd StatefulPartitionedCall StatelessCase StatelessIf \
        StatelessWhile Switch VarHandleOp VarIsInitializedOp Variable VariableShape VariableV2 While";

    #[test]
    fn every_operator_is_converted_or_refused_with_a_reason() {
        let table = table();
        let rows = table.operators();
        let source = Source::default();
        let lines = include_str!("../schema/operators.txt").lines();
        let names = lines.filter_map(|line| line.split('(').next());
        let open = |op: &&str| {
            let opsets = Opsets::from([(String::new(), 18)]);
            let driver = Driver::new(&table, &source, Graph::new("g"), opsets, Fallback::default());
            driver.lower(Lowering { op: (*op).to_owned(), ..Lowering::default() });
            let found = driver.finish().err().unwrap_or_default();
            found.0.iter().any(|found| found.to_string().contains("is not known"))
        };
        // Lists have rows of their kinds.
        let taken = |op: &&str| {
            rows.binary_search(op).is_ok()
                || rows.contains(&format!("complex::{op}").as_str())
                || op.starts_with("TensorList")
                || op.starts_with("TensorArray")
                || RUN.split_whitespace().any(|run| run == *op)
        };
        let unknown: Vec<&str> = names.filter(|op| !taken(op)).filter(open).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
