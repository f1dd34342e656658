/* A small plugin for the tests: a front-end and passes whose behaviour their names describe.
 * SPOIL_* macros break one thing each. */
#include "onnxd_plugin.h"
#include <stdlib.h>
#include <string.h>

#ifndef MAGIC
#define MAGIC ONNXD_MAGIC
#endif
#ifndef MAJOR
#define MAJOR ONNXD_ABI_MAJOR
#endif
#ifndef MIN_HOST_MINOR
#define MIN_HOST_MINOR 0
#endif
#ifndef HEADER_SIZE
#define HEADER_SIZE sizeof(onnxd_header)
#endif
#ifndef TABLE_SIZE
#define TABLE_SIZE sizeof(onnxd_plugin)
#endif
#ifndef ID
#define ID "org.example.test"
#endif

static const onnxd_host *host;

typedef struct instance {
  char what[256];
} instance;

static onnxd_str text(const char *t) {
  onnxd_str s = {(const uint8_t *)t, strlen(t)};
  return s;
}

static onnxd_status fail(onnxd_err *err, onnxd_status status, const char *why) {
  size_t n = strlen(why);
  if (n > err->cap) n = err->cap;
  memcpy(err->ptr, why, n);
  err->len = n;
  return status;
}

static onnxd_status create(onnxd_str kind, onnxd_str params, void **inst, onnxd_err *err) {
  onnxd_str source = kind.len == 4 && !memcmp(kind.ptr, "pass", 4) ? params : kind;
  if (kind.len > 9 && memcmp(kind.ptr + 9, "toy", 3) != 0)
    return fail(err, ONNXD_INVALID, "unknown component");
  instance *i = calloc(1, sizeof *i);
  memcpy(i->what, source.ptr, source.len < 255 ? source.len : 255);
  *inst = i;
  return ONNXD_OK;
}

/* Wraps the input's bytes as a tensor without copying and puts its id as the graph. */
static onnxd_status import(const onnxd_job *job) {
  onnxd_bytes file = {sizeof file, 0, 0, 0, 0};
  onnxd_status status = host->input_map(job, text("net.toy"), &file);
  if (status) return status;
  int64_t dims[1] = {(int64_t)file.len - 4};
  onnxd_tensor desc = {sizeof desc, 2, 1, 0, dims, NULL, 0};
  uint64_t id = 0;
  status = host->tensor_alias(job, file.id, 4, &desc, &id);
  if (status) return status;
  char graph[2] = {'t', (char)('0' + id)};
  onnxd_str bytes = {(const uint8_t *)graph, 2};
  host->log(job, ONNXD_LOG_INFO, text("toy"), text("imported"));
  host->metric(job, text("files"), 1.0);
  return host->graph_put(job, bytes);
}

/* Makes a tensor whose bytes are those of the graph's tensor plus one. */
static onnxd_status increment(const onnxd_job *job) {
  onnxd_str graph;
  onnxd_status status = host->graph_get(job, &graph);
  if (status) return status;
  onnxd_tensor x = {sizeof x, 0, 0, 0, NULL, NULL, 0};
  status = host->tensor_get(job, (uint64_t)(graph.ptr[1] - '0'), &x);
  if (status) return status;
  uint64_t id = 0;
  void *data = NULL;
  status = host->tensor_new(job, &x, &id, &data);
  if (status) return status;
  for (uint64_t i = 0; i < x.nbytes; i++)
    ((uint8_t *)data)[i] = (uint8_t)(((const uint8_t *)x.data)[i] + 1);
  status = host->tensor_seal(job, id);
  if (status) return status;
  char out[2] = {'t', (char)('0' + id)};
  onnxd_str bytes = {(const uint8_t *)out, 2};
  return host->graph_put(job, bytes);
}

static onnxd_status run(void *inst, const onnxd_job *job, onnxd_err *err) {
  const char *what = ((instance *)inst)->what;
  if (!strncmp(what, "frontend/toy", 12)) return import(job);
  if (strstr(what, "\"increment\"")) return increment(job);
  if (strstr(what, "\"nothing\"")) return ONNXD_DECLINED;
  if (strstr(what, "\"panics\"")) return fail(err, ONNXD_INTERNAL, "panicked at 'oh'");
  if (strstr(what, "\"invalid\"")) return fail(err, ONNXD_INVALID, "bad graph");
  if (strstr(what, "\"reserved\"")) return fail(err, 77, "what");
  if (strstr(what, "\"lies\"")) {
    err->len = (size_t)-1;
    return ONNXD_INTERNAL;
  }
  if (strstr(what, "\"waits\"")) {
    while (!host->progress(job, 0, 0)) {
    }
    return ONNXD_CANCELLED;
  }
  if (strstr(what, "\"explains\"")) {
    /* onnxd.Diagnostics { items { code "X1" class "input" message "m" } } */
    static const char message[] = "\x0a\x0e\x0a\x02X1\x12\x05input\x1a\x01m";
    onnxd_str data = {(const uint8_t *)message, sizeof message - 1};
    host->artifact(job, text("onnxd.diagnostics"), text("application/protobuf"), data);
    return fail(err, ONNXD_INVALID, "less precise");
  }
  return fail(err, ONNXD_INTERNAL, "unknown pass");
}

static onnxd_status probe(void *inst, const onnxd_job *job, onnxd_err *err) {
  (void)inst;
  onnxd_bytes file = {sizeof file, 0, 0, 0, 0};
  if (host->input_map(job, text("net.toy"), &file)) return fail(err, ONNXD_DECLINED, "no net.toy");
  /* onnxd.Probe { level: CLAIM_BY_CONTENT } */
  onnxd_str data = {(const uint8_t *)"\x08\x02", 2};
  return host->artifact(job, text("onnxd.probe"), text("application/protobuf"), data);
}

static const onnxd_probe_extension probing = {sizeof probing, 0, probe};

static const void *extension(onnxd_str name) {
  size_t n = strlen(ONNXD_EXTENSION_PROBE);
  return name.len == n && !memcmp(name.ptr, ONNXD_EXTENSION_PROBE, n) ? &probing : NULL;
}

static void destroy(void *inst) { free(inst); }

#ifdef SPOIL_NO_RUN
#define RUN NULL
#else
#define RUN run
#endif

static const onnxd_plugin plugin = {TABLE_SIZE, 0, create, RUN, destroy, extension};

static const onnxd_plugin *entry(const onnxd_host *h) {
  host = h;
  (void)run;
#ifdef SPOIL_REFUSES
  return NULL;
#else
  return &plugin;
#endif
}

#ifdef SPOIL_NULL_ENTRY
#define ENTRY NULL
#else
#define ENTRY entry
#endif

#define DESCRIPTOR                                                                      \
  "summary = 'For tests'\nlicence = 'MIT'\n"                                             \
  "[[components]]\nkind = 'frontend'\nid = 'toy'\nsummary = 'Toys'\nglobs = ['*.toy']\n" \
  "[[components]]\nkind = 'pass'\nid = 'increment'\n"

#ifndef SPOIL_NO_SYMBOL
const onnxd_header onnxd_plugin_header = {
    MAGIC,   HEADER_SIZE,    MAJOR,           ONNXD_ABI_MINOR,     MIN_HOST_MINOR, {0, 0, 0},
    ONNXD_TEXT(ONNXD_ABI_TAG), ONNXD_TEXT(ID), ONNXD_TEXT("1.2.3"), ONNXD_TEXT(DESCRIPTOR), ENTRY};
#endif
