//! What ONNX lacks: strings and tables, code of Python, files, queues, data sets, and training.

use super::Source;
use onnxd_plugin_sdk::lower::Table;

/// Operators that share a reason, separated by blanks.
struct Group {
    reason: &'static str,
    operators: &'static str,
}

const GROUPS: [Group; 11] = [
    Group {
        reason: "it works on strings; export the part of the network behind it",
        operators: "AsString DecodeBase64 EncodeBase64 ReduceJoin RegexFullMatch RegexReplace \
            StaticRegexFullMatch StaticRegexReplace StringFormat StringJoin StringLength StringLower StringNGrams \
            StringSplit StringSplitV2 StringStrip StringToHashBucket StringToHashBucketFast \
            StringToHashBucketStrong StringToNumber StringUpper Substr UnicodeDecode UnicodeDecodeWithOffsets \
            UnicodeEncode UnicodeScript UnicodeTranscode UnsortedSegmentJoin SparseCrossHashed \
            SparseCrossV2 SparseCross Skipgram SdcaFprint GenerateVocabRemapping",
    },
    Group {
        reason: "it looks up in a table that the file fills when it is loaded; give the network the numbers \
            that the table holds",
        operators: "AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable \
            AnonymousMutableHashTableOfTensors HashTable HashTableV2 InitializeTable InitializeTableV2 \
            InitializeTableFromTextFile InitializeTableFromTextFileV2 LookupTableExport LookupTableExportV2 \
            LookupTableFind LookupTableFindV2 LookupTableImport LookupTableImportV2 LookupTableInsert \
            LookupTableInsertV2 LookupTableRemoveV2 LookupTableSize LookupTableSizeV2 MutableDenseHashTable \
            MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors MutableHashTableOfTensorsV2 \
            MutableHashTableV2 TensorMapErase TensorMapHasKey TensorMapInsert TensorMapLookup TensorMapSize \
            TensorMapStackKeys EmptyTensorMap",
    },
    Group {
        reason: "it runs code of Python, which is not in the file; write it with operators of TensorFlow",
        operators: "PyFunc PyFuncStateless EagerPyFunc",
    },
    Group {
        reason: "it decodes or encodes a file; give the network the decoded tensor",
        operators: "DecodeAndCropJpeg DecodeBmp DecodeCSV DecodeCompressed DecodeGif DecodeImage \
            DecodeJSONExample DecodeJpeg DecodeJxl DecodePaddedRaw DecodePng DecodeProtoV2 DecodeRaw DecodeWav \
            DecodeWebP EncodeJpeg EncodeJpegVariableQuality EncodePng EncodeProto EncodeWav ExtractJpegShape",
    },
    Group {
        reason: "it parses records; give the network their tensors",
        operators: "ParseExample ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample \
            ParseSingleSequenceExample ParseTensor SerializeTensor SerializeSparse SerializeManySparse \
            DeserializeSparse DeserializeManySparse",
    },
    Group {
        reason: "it reads or writes files",
        operators: "ReadFile WriteFile MatchingFiles WholeFileReader WholeFileReaderV2 TextLineReader \
            TextLineReaderV2 TFRecordReader TFRecordReaderV2 FixedLengthRecordReader FixedLengthRecordReaderV2 \
            IdentityReader IdentityReaderV2 LMDBReader ReaderRead ReaderReadV2 ReaderReadUpTo ReaderReadUpToV2 \
            Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2 ShardedFilename ShardedFilespec \
            MergeV2Checkpoints LoadDataset SaveDataset",
    },
    Group {
        reason: "it takes samples from a pipeline; export the network with tensors as inputs",
        operators: "Iterator IteratorV2 IteratorGetNext IteratorGetNextSync IteratorGetNextAsOptional \
            IteratorFromStringHandle IteratorFromStringHandleV2 IteratorToStringHandle OneShotIterator \
            AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 MakeIterator MultiDeviceIterator \
            OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone FIFOQueue FIFOQueueV2 FakeQueue \
            PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 RandomShuffleQueue \
            RandomShuffleQueueV2 QueueDequeue QueueDequeueV2 QueueDequeueMany QueueDequeueManyV2 \
            QueueDequeueUpTo QueueDequeueUpToV2 QueueEnqueue QueueEnqueueV2 QueueEnqueueMany \
            QueueEnqueueManyV2 QueueSize QueueSizeV2 QueueIsClosed QueueIsClosedV2 Barrier Stage Unstage \
            TensorSliceDataset TensorDataset BatchDataset BatchDatasetV2 MapDataset ReduceDataset \
            DatasetToSingleElement DatasetToGraph DatasetToGraphV2",
    },
    Group {
        reason: "it computes gradients; export the network in inference mode",
        operators: "SymbolicGradient BroadcastGradientArgs AccumulatorTakeGradient \
            ResourceAccumulatorTakeGradient SparseAccumulatorTakeGradient AccumulatorApplyGradient",
    },
    Group {
        reason: "it draws candidates for training",
        operators: "AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler \
            LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler",
    },
    Group {
        reason: "it moves tensors between devices or processes",
        operators: "Send Recv _Send _Recv _HostSend _HostRecv CollectiveReduce CollectiveReduceV2 \
            CollectiveGather CollectiveGatherV2 CollectiveBcastRecv CollectiveBcastSend TPUReplicatedInput \
            TPUReplicatedOutput TPUPartitionedCall NcclAllReduce AllToAll CollectivePermute CrossReplicaSum",
    },
    Group {
        reason: "it holds a program of XLA, which only TensorFlow runs; export the network without XLA",
        operators: "XlaCallModule XlaLaunch XlaHostCompute",
    },
];

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let each = GROUPS
        .iter()
        .flat_map(|group| group.operators.split_whitespace().map(move |op| (op, group.reason)));
    each.fold(table, |table, (op, reason)| table.refused(op, reason))
}
