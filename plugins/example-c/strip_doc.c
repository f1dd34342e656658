/* A plugin in C: one pass, strip-doc, that drops the model's doc_string. It shows all that a plugin needs: the header
 * as exported data, the table, and a walk over the graph's bytes. Build it with
 *
 *     cc -std=c11 -shared -fPIC -O2 -I ../../core/plugin-abi -o libstrip_doc.so strip_doc.c
 *
 * ModelProto is a protobuf message: a run of fields, each a key (number << 3 | wire type) and a value. The pass copies
 * every field but number 6. */
#include "onnxd_plugin.h"

#include <stdlib.h>
#include <string.h>

enum { DOC_STRING = 6, VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static const onnxd_host *host;

static onnxd_str text(const char *s) {
  onnxd_str out = {(const uint8_t *)s, strlen(s)};
  return out;
}

static onnxd_status fail(onnxd_err *err, onnxd_status status, const char *why) {
  if (err != NULL && err->ptr != NULL) {
    size_t len = strlen(why) < err->cap ? strlen(why) : err->cap;
    memcpy(err->ptr, why, len);
    err->len = len;
  }
  return status;
}

/* Reads a varint at *at; 0 if the bytes end or it is longer than 10 bytes. */
static int varint(const uint8_t *p, size_t len, size_t *at, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 70 && *at < len; shift += 7) {
    uint8_t byte = p[(*at)++];
    if (shift < 64) *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return 1;
  }
  return 0;
}

/* Moves *at over one field and tells its number; 0 if the bytes are not a field. */
static int field(const uint8_t *p, size_t len, size_t *at, uint64_t *number) {
  uint64_t key, size = 0;
  if (!varint(p, len, at, &key)) return 0;
  *number = key >> 3;
  switch (key & 7) {
    case VARINT: return varint(p, len, at, &size);
    case FIXED64: size = 8; break;
    case FIXED32: size = 4; break;
    case BYTES:
      if (!varint(p, len, at, &size)) return 0;
      break;
    default: return 0;
  }
  if (size > len - *at) return 0;
  *at += size;
  return 1;
}

/* The message onnxd.PassLog { passes { name: "strip-doc" rewrites: N } } with N below 128. */
static onnxd_status report(const onnxd_job *job, uint8_t rewrites) {
  uint8_t log[] = {0x0a, 13, 0x0a, 9, 's', 't', 'r', 'i', 'p', '-', 'd', 'o', 'c', 0x10, rewrites};
  onnxd_str data = {log, sizeof log};
  return host->artifact(job, text("onnxd.pass-log"), text("application/x-protobuf"), data);
}

static onnxd_status create(onnxd_str kind, onnxd_str params, void **inst, onnxd_err *err) {
  /* There is one component; the host names it in the params. A real plugin reads the JSON with a library. */
  static const char name[] = "\"strip-doc\"";
  int named = 0;
  for (size_t i = 0; i + sizeof name - 1 <= params.len; i++)
    named |= memcmp(params.ptr + i, name, sizeof name - 1) == 0;
  if (kind.len != 4 || memcmp(kind.ptr, "pass", 4) != 0 || !named)
    return fail(err, ONNXD_INVALID, "this plugin has the pass `strip-doc` only");
  static int instance;
  *inst = &instance;
  return ONNXD_OK;
}

static onnxd_status run(void *inst, const onnxd_job *job, onnxd_err *err) {
  (void)inst;
  onnxd_str in;
  onnxd_status status = host->graph_get(job, &in);
  if (status != ONNXD_OK) return fail(err, status, "no graph");
  uint8_t *out = malloc(in.len > 0 ? in.len : 1);
  if (out == NULL) return fail(err, ONNXD_OUT_OF_MEMORY, "no memory for a copy of the graph");
  size_t kept = 0, at = 0;
  uint8_t dropped = 0;
  while (at < in.len) {
    size_t start = at;
    uint64_t number;
    if (!field(in.ptr, in.len, &at, &number)) {
      free(out);
      return fail(err, ONNXD_INVALID, "the graph is not a protobuf message");
    }
    if (number == DOC_STRING) {
      dropped = 1;
    } else {
      memcpy(out + kept, in.ptr + start, at - start);
      kept += at - start;
    }
  }
  onnxd_str model = {out, kept};
  if (dropped) status = host->graph_put(job, model);
  free(out);
  if (status == ONNXD_OK) status = report(job, dropped);
  return status == ONNXD_OK ? status : fail(err, status, "the host refused the result");
}

static void destroy(void *inst) { (void)inst; }

static const void *extension(onnxd_str name) {
  (void)name;
  return NULL;
}

static const onnxd_plugin plugin = {
    .struct_size = sizeof(onnxd_plugin),
    .create = create,
    .run = run,
    .destroy = destroy,
    .extension = extension,
};

static const onnxd_plugin *entry(const onnxd_host *from) {
  /* Functions beyond struct_size do not exist; this plugin needs everything up to `artifact`. */
  if (from == NULL || from->struct_size < offsetof(onnxd_host, metric)) return NULL;
  host = from;
  return &plugin;
}


const onnxd_header onnxd_plugin_header = {
    .magic = {'O', 'N', 'N', 'X', 'D', 'P', 'L', 'G'},
    .struct_size = sizeof(onnxd_header),
    .abi_major = ONNXD_ABI_MAJOR,
    .abi_minor = ONNXD_ABI_MINOR,
    .abi_tag = ONNXD_TEXT(ONNXD_ABI_TAG),
    .id = ONNXD_TEXT("org.onnxd.example-c"),
    .version = ONNXD_TEXT("0.1.0"),
    .descriptor = ONNXD_TEXT("{\"summary\":\"An example in C\",\"licence\":\"MIT OR Apache-2.0\",\"components\":"
                          "[{\"kind\":\"pass\",\"id\":\"strip-doc\",\"summary\":\"Drops the model's doc_string\"}]}"),
    .entry = entry,
};
