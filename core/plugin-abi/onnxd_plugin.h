/* onnxd_plugin.h: the binary interface between onnxd and its plugins, version 1.0.
 *
 * A plugin is one shared library that exports one data symbol, `onnxd_plugin_header`. Copy the
 * library into the plugin folder; `onnxd plugins check FILE` says whether onnxd would load it.
 *
 * Promise
 *   A plugin built for 1.x loads in every onnxd that speaks 1.y. Within a major, structs only grow
 *   at their end, and the reader looks at `struct_size` before it touches a field. New abilities
 *   are named extensions with a version of their own ("onnxd.probe/1").
 *
 * Where a plugin runs
 *   Always in a worker process that is confined and has limits on memory, processor time and wall
 *   time. It sees the dropped files read-only and has no network and no child processes. A crash
 *   costs one attempt of one job. A library is never unloaded.
 *
 * Ownership
 *   Whoever allocates frees; nothing is freed across the boundary. The host lends views, which stay
 *   valid until `run` (or `probe`) returns. It copies what it is given, except tensors, which the
 *   plugin writes into memory that the host gave it.
 *
 * Threads
 *   `create`, `run`, `probe` and `destroy` of one instance are called by one thread at a time.
 *   During `run` any thread may call `log`, `progress`, `progress_about`, `metric`, `extension` and
 *   the `tensor_*` functions; everything else is for the thread that called `run`. All threads of a plugin are
 *   joined before `run` returns, and there are never more than `job->threads` at work.
 *
 * Unwinding
 *   No panic and no C++ exception may cross the boundary in either direction.
 *
 * Graph
 *   A graph crosses as the bytes of an ONNX ModelProto. Every tensor with elements of fixed size
 *   and at least one element, be it an initializer or an attribute, carries no data but a handle:
 *   `data_location = EXTERNAL` and `external_data = [{key: "handle", value: "42"}]`, where 42 is an
 *   id for `tensor_get`. Tensors of strings and empty tensors stay inline.
 *
 * Determinism
 *   The same inputs, params and plugin version give the same bytes; a plugin that cannot promise
 *   this says `deterministic = false` in its descriptor.
 *
 * Descriptor
 *   TOML; texts in single quotes spare C the backslashes:
 *     summary = 'Folds pads into convolutions'
 *     licence = 'MIT'
 *     deterministic = true
 *     threads = 'one'                              (or 'many')
 *     [[components]]
 *     kind = 'pass'                                (or 'frontend', 'quantizer')
 *     id = 'fuse-pad'                              (lower-case letters, digits, '-')
 *     summary = 'Moves padding into convolutions'
 *     globs = ['*.onnx']                           (front-ends: names they may claim)
 *     magic = ['08']                               (optional: hexadecimal first bytes)
 *     [[components.params]]                        (params of its own; unknown keys are refused)
 *     key = 'passes.fuse-pad.most'
 *     type = '1..100 | all'
 *     default = 'all'
 *     help = 'Pads that are moved.'
 *   What more a component may say (needs, conditions, spellings): docs/formats.md, "Plugin descriptor".
 *
 * Messages
 *   `onnxd.*` messages are Protocol Buffers; their definitions are in proto/onnxd/.
 */
#ifndef ONNXD_PLUGIN_H
#define ONNXD_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONNXD_ABI_MAJOR 1
#define ONNXD_ABI_MINOR 3
#define ONNXD_MAGIC "ONNXDPLG"
#define ONNXD_ABI_TAG "onnxd"
#define ONNXD_PLUGIN_SYMBOL "onnxd_plugin_header"
#define ONNXD_EXTENSION_PROBE "onnxd.probe/1"

/* Reserved names of artifacts, and the messages they hold. */
#define ONNXD_ARTIFACT_PROBE "onnxd.probe"             /* onnxd.Probe: the answer to a probe */
#define ONNXD_ARTIFACT_PASS_LOG "onnxd.pass-log"       /* onnxd.PassLog: what passes did */
#define ONNXD_ARTIFACT_QUANTIZE_LOG "onnxd.quantize-log" /* onnxd.QuantizeLog and onnxd.Quantization */
#define ONNXD_ARTIFACT_IMPORT_LOG "onnxd.import-log"   /* onnxd.ImportLog: notes, metadata, further models */
#define ONNXD_ARTIFACT_DIAGNOSTICS "onnxd.diagnostics" /* onnxd.Diagnostics: why a call failed */

#define ONNXD_HANDLE_KEY "handle" /* key of the external_data entry that holds a tensor's id */
#define ONNXD_RANK_MAX 32
#define ONNXD_ABOUT_BYTES_MAX 160 /* of the text that progress_about shows; a longer one is cut */
#define ONNXD_TENSOR_ALIGNED_64 1u /* flag: data is aligned to 64; without it nothing is promised */

/* What a call came to; other values are reserved and read as ONNXD_INTERNAL. */
typedef int32_t onnxd_status;
#define ONNXD_OK 0
#define ONNXD_DECLINED 1      /* not mine, or nothing to do; not an error */
#define ONNXD_INVALID 2       /* the input (or an argument) is wrong */
#define ONNXD_INTERNAL 3      /* a defect of the callee; "panic" in the text marks a caught panic */
#define ONNXD_CANCELLED 4     /* stopped because progress or progress_about asked for it */
#define ONNXD_UNSUPPORTED 5   /* operator, feature or function is not available */
#define ONNXD_OUT_OF_MEMORY 6 /* memory ran out */
#define ONNXD_IO 7            /* a file could not be read or written */

/* Levels of `log`. */
#define ONNXD_LOG_ERROR 1
#define ONNXD_LOG_WARN 2
#define ONNXD_LOG_INFO 3
#define ONNXD_LOG_DEBUG 4
#define ONNXD_LOG_TRACE 5

/* Borrowed bytes: UTF-8 text without a terminating zero, or an encoded message. Valid for the
 * duration of the call unless its user says otherwise. `ptr` may be NULL if `len` is 0. */
typedef struct onnxd_str {
  const uint8_t *ptr;
  size_t len;
} onnxd_str;

/* A message buffer owned by the caller. The callee writes at most `cap` bytes of UTF-8 without a
 * terminating zero, cuts the rest off, and sets `len`. Nothing is freed. The pointer to it may be
 * NULL. */
typedef struct onnxd_err {
  size_t cap;
  size_t len; /* 0 before the call */
  char *ptr;
} onnxd_err;

/* A dropped file, mapped read-only. */
typedef struct onnxd_bytes {
  uint32_t struct_size; /* set by the caller: sizeof(onnxd_bytes) */
  uint32_t reserved;    /* 0 */
  const uint8_t *ptr;   /* aligned to a page */
  size_t len;
  uint64_t id; /* source for tensor_alias; unique among tensors and mappings */
} onnxd_bytes;

/* An array in memory: little-endian, row-major; types below 8 bits packed, low bits first. */
typedef struct onnxd_tensor {
  uint32_t struct_size; /* set by the caller: sizeof(onnxd_tensor) */
  uint32_t dtype;       /* TensorProto.DataType; strings have no such array */
  uint32_t rank;        /* at most ONNXD_RANK_MAX */
  uint32_t flags;       /* ONNXD_TENSOR_*; set by the host, ignored as an argument */
  const int64_t *dims;  /* `rank` sizes, none negative; may be NULL if rank is 0 */
  const void *data;     /* ignored as an argument */
  uint64_t nbytes;      /* as an argument: 0, or what dtype and dims come to */
} onnxd_tensor;

/* How the elements of a tensor come from those of others. They are computed where the model is
 * written, block by block. */
typedef struct onnxd_derivation {
  uint32_t struct_size;    /* set by the caller: sizeof(onnxd_derivation) */
  uint32_t kind;           /* ONNXD_DERIVE_* */
  const uint64_t *sources; /* ids of tensors whose elements are whole bytes, except of LOOKUP */
  size_t source_count;     /* CONCAT: any; STRIDED, CAST, BLOCKS: one; else two */
  uint64_t offset;         /* STRIDED: the element at the coordinates 0; BLOCKS: what is taken */
  const int64_t *strides;  /* STRIDED: as many as the result has dimensions, in elements; 0 repeats,
                              negative ones run backwards. NULL otherwise */
  uint32_t axis;           /* CONCAT, SCALED, TAKEN; BLOCKS: the format */
  uint32_t reserved;       /* 0 */
} onnxd_derivation;

/* The element at the coordinates i is element offset + sum of i[a] * strides[a] of the source, in
 * row-major order: permutes, slices with steps, reverses, expands. */
#define ONNXD_DERIVE_STRIDED 1u
#define ONNXD_DERIVE_CAST 2u   /* the source's elements in their order, converted as Cast does */
#define ONNXD_DERIVE_CONCAT 3u /* the sources one after the other along `axis` */
/* The elements of the first source, a float tensor, multiplied by the element of the second one, a
 * vector of double, at their coordinate along `axis`; in double precision, and rounded. */
#define ONNXD_DERIVE_SCALED 4u
/* What the second source, a vector of 4, 16 or 256 elements, has for every 2, 4 or 8 bits of the
 * bytes of the first one, the low bits first. Both may have elements of less than a byte. Since
 * 1.3. */
#define ONNXD_DERIVE_LOOKUP 5u
/* Slices of the first source along `axis`: those that the second one, a vector of int64 in memory,
 * names, in its order. Since 1.3. */
#define ONNXD_DERIVE_TAKEN 6u
/* What blocks of small integers say. The source has their bytes (uint8), `axis` is the number of their
 * format in GGML, and `offset` says what is taken: 0 the elements (float), 1 their integers (int8),
 * 2 what these are multiplied by (float), 3 what is subtracted then (float). Since 1.3. */
#define ONNXD_DERIVE_BLOCKS 7u
#define ONNXD_DERIVATIONS_MAX 16 /* derivations inside each other */

/* One conversion in progress. Opaque except for these first fields; only the host makes one. */
typedef struct onnxd_job {
  uint32_t struct_size; /* how many bytes from here may be read */
  uint32_t threads;     /* threads the plugin may keep busy, the calling one included; >= 1 */
} onnxd_job;

/* A named tensor given to or taken from `run_model`. */
typedef struct onnxd_named_tensor {
  onnxd_str name;
  uint64_t id;
} onnxd_named_tensor;

/* A request to evaluate a model. */
typedef struct onnxd_run {
  uint32_t struct_size;
  uint32_t flags;  /* 0 */
  onnxd_str graph; /* ModelProto with handles; empty means the job's own graph */
  const onnxd_named_tensor *inputs;
  size_t input_count;
  onnxd_named_tensor *outputs; /* names are read, ids are written */
  size_t output_count;
} onnxd_run;

/* What the host offers. A function beyond `struct_size`, or NULL, does not exist.
 *
 * Every function answers ONNXD_INVALID to NULL pointers, unknown ids, text that is not UTF-8 and
 * to a job whose `run` has returned, without effect. */
typedef struct onnxd_host {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;

  /* Writes one line to the job's log. Any thread during `run`. */
  void (*log)(const onnxd_job *job, int32_t level, onnxd_str target, onnxd_str message);

  /* Says how far the work is; `total` 0 means unknown. Call it at least once per second of work:
   * ONNXD_CANCELLED asks to return at once with the same status. Any thread during `run`. */
  onnxd_status (*progress)(const onnxd_job *job, uint64_t done, uint64_t total);

  /* The encoded message onnxd.Submission: names of all dropped files, which of them is the network,
   * and the resolved params. Borrowed until `run` returns. */
  onnxd_status (*submission)(const onnxd_job *job, onnxd_str *out);

  /* Maps a file of the submission by its name there. Borrowed until `run` returns. Mapping a name
   * again gives the same id. ONNXD_IO if the file cannot be read. */
  onnxd_status (*input_map)(const onnxd_job *job, onnxd_str name, onnxd_bytes *out);

  /* The graph to work on. Borrowed until `run` returns, also after `graph_put`.
   * ONNXD_UNSUPPORTED if the job has none, as in an import. */
  onnxd_status (*graph_get)(const onnxd_job *job, onnxd_str *out);

  /* Hands over the resulting graph; copied. A later call replaces an earlier one. */
  onnxd_status (*graph_put)(const onnxd_job *job, onnxd_str model);

  /* A sealed tensor, read-only, borrowed until `run` returns. Set `out->struct_size` first.
   * Any thread during `run`. */
  onnxd_status (*tensor_get)(const onnxd_job *job, uint64_t id, onnxd_tensor *out);

  /* Room for a new tensor: zeroed, aligned to 64 bytes, writable until `tensor_seal`.
   * Any thread during `run`. */
  onnxd_status (*tensor_new)(const onnxd_job *job, const onnxd_tensor *desc, uint64_t *id,
                             void **data);

  /* Ends writing. Afterwards the memory must not be written, by no thread; writing to it may crash.
   * Only a sealed tensor may be named by a graph. Any thread during `run`. */
  onnxd_status (*tensor_seal)(const onnxd_job *job, uint64_t id);

  /* A new sealed tensor over the bytes of another sealed tensor or of a mapped input, beginning at
   * `byte_offset`; nothing is copied. Any thread during `run`. */
  onnxd_status (*tensor_alias)(const onnxd_job *job, uint64_t source, uint64_t byte_offset,
                               const onnxd_tensor *desc, uint64_t *id);

  /* Hands over a result besides the graph; copied. Names beginning with "onnxd." are reserved for
   * ONNXD_ARTIFACT_*. Any other name is that of a file beside the model, which is written at once:
   * letters, digits, '.', '-' and '_', folders between '/'; not "model.*", "report.*",
   * "receipt.*"; ONNXD_UNSUPPORTED in a probe. A later call with the same name replaces an earlier
   * one. */
  onnxd_status (*artifact)(const onnxd_job *job, onnxd_str name, onnxd_str mime, onnxd_str data);

  /* A number for the report. Any thread during `run`. */
  onnxd_status (*metric)(const onnxd_job *job, onnxd_str key, double value);

  /* Evaluates a model with the host's executor; ONNXD_UNSUPPORTED where there is none. */
  onnxd_status (*run_model)(const onnxd_job *job, const onnxd_run *run);

  /* A static struct of the host by name, NULL if not offered. Any thread, any time. */
  const void *(*extension)(onnxd_str name);

  /* Gives a mapped file back: its bytes must not be read any more, unless it was mapped more often
   * than it was given back. Tensors over it stay. For those who read thousands of files one after
   * the other. Since 1.1. */
  onnxd_status (*input_unmap)(const onnxd_job *job, uint64_t id);

  /* As `progress`, and says in words what `done` of `total` count: "candidate 3 of 7, sample". The
   * host shows them with the one that is being worked on: "candidate 3 of 7, sample 12 of 64"; with
   * `done` and `total` 0 the text alone. What is new has another text: within one text, counts only
   * grow. The host shows the first ONNXD_ABOUT_BYTES_MAX bytes, in one line. Any thread during
   * `run`. Since 1.2. */
  onnxd_status (*progress_about)(const onnxd_job *job, uint64_t done, uint64_t total,
                                 onnxd_str about);

  /* A new sealed tensor that is derived from others and takes no memory. ONNXD_INVALID if it would
   * read beyond its sources, or is derived more than ONNXD_DERIVATIONS_MAX times over. Any thread
   * during `run`. Since 1.2. */
  onnxd_status (*tensor_derive)(const onnxd_job *job, const onnxd_derivation *from,
                                const onnxd_tensor *desc, uint64_t *id);

  /* How a tensor is derived, and its type and sizes, without data; ONNXD_DECLINED if it lies in
   * memory. Borrowed until `run` returns. `tensor_get` computes a derived tensor, and keeps it in
   * memory until `run` returns. Set both sizes first. Any thread during `run`. Since 1.2. */
  onnxd_status (*tensor_derivation)(const onnxd_job *job, uint64_t id, onnxd_derivation *from,
                                    onnxd_tensor *desc);
} onnxd_host;

/* What a plugin can do. A NULL function is one the plugin does not have. */
typedef struct onnxd_plugin {
  uint32_t struct_size; /* sizeof(onnxd_plugin) */
  uint32_t reserved;    /* 0 */

  /* Makes an instance. `kind` is "frontend/ID", "quantizer/ID" or "pass"; `params_json` is
   *   {"params": {...}}
   * for passes with the list of components to run and the number of rewrites after which to stop
   * (0: no limit):
   *   {"passes": [{"id": "fuse-pad"}], "rewrites_max": 0, "params": {...}}
   * An unknown component is ONNXD_INVALID. `inst` is written only with ONNXD_OK. */
  onnxd_status (*create)(onnxd_str kind, onnxd_str params_json, void **inst, onnxd_err *err);

  /* Does the work: reads submission or graph, puts the graph. Called at most once per instance. */
  onnxd_status (*run)(void *inst, const onnxd_job *job, onnxd_err *err);

  /* Frees an instance. */
  void (*destroy)(void *inst);

  /* A static struct by name, NULL if not offered. Any thread, any time after `entry`. */
  const void *(*extension)(onnxd_str name);
} onnxd_plugin;

/* Extension "onnxd.probe/1" of a plugin with front-ends. */
typedef struct onnxd_probe_extension {
  uint32_t struct_size; /* sizeof(onnxd_probe_extension) */
  uint32_t reserved;    /* 0 */

  /* Says through the artifact "onnxd.probe" whether the submission is the front-end's own and which
   * files are missing. Must be quick: reads beginnings, not whole files. No graph is put. */
  onnxd_status (*probe)(void *inst, const onnxd_job *job, onnxd_err *err);
} onnxd_probe_extension;

/* What a plugin exports: data, read without running the plugin's code. All strings are static. */
typedef struct onnxd_header {
  uint8_t magic[8];              /* ONNXD_MAGIC */
  uint32_t struct_size;          /* sizeof(onnxd_header) */
  uint16_t abi_major, abi_minor; /* ONNXD_ABI_MAJOR, ONNXD_ABI_MINOR */
  uint16_t min_host_minor;       /* lowest host minor it can live with; 0 unless it needs more */
  uint16_t reserved[3];          /* 0 */
  onnxd_str abi_tag;             /* ONNXD_ABI_TAG */
  onnxd_str id;                  /* "org.example.fuse-pads": lower-case letters, digits, '.', '-' */
  onnxd_str version;             /* semantic version */
  onnxd_str descriptor;          /* TOML, see above */

  /* Called once per process before anything else; NULL means the plugin refuses this host. Both
   * tables live as long as the process. */
  const onnxd_plugin *(*entry)(const onnxd_host *host);
} onnxd_header;

/* Text that does not change: an onnxd_str initializer for a string literal. */
#define ONNXD_TEXT(literal) {(const uint8_t *)(literal), sizeof(literal) - 1}

/* The library defines this; with hidden visibility by default, mark it as exported. */
#if defined(__GNUC__)
extern __attribute__((visibility("default"))) const onnxd_header onnxd_plugin_header;
#else
extern const onnxd_header onnxd_plugin_header;
#endif

#ifdef __cplusplus
}
#endif
#endif
