/* A quantizer in C: rounds weights to 15 levels around zero, in floating point. Build it with
 *
 *     cc -std=c11 -shared -fPIC -O2 -I ../../core/plugin-abi -o libround.so round.c -lm
 */
#include "onnxd_graph.h"

#include <math.h>

static onnxd_status create(onnxd_str kind, onnxd_str params, void **inst, onnxd_err *err) {
  static int instance;
  (void)params;
  if (!og_is(kind, "quantizer/round")) return og_fail(err, ONNXD_INVALID, "this plugin has the quantizer `round` only");
  *inst = &instance;
  return ONNXD_OK;
}

/* Rounds one weight, and adds its row to the log. */
static onnxd_status rounded(og *g, const onnxd_job *job, og_msg *weight, og_msg *log) {
  onnxd_tensor from = {sizeof from, 0, 0, 0, NULL, NULL, 0};
  uint64_t id = og_handle(g, weight);
  if (id == 0 || og_host->tensor_get(job, id, &from) != ONNXD_OK) return ONNXD_OK;
  size_t count = (size_t)from.nbytes / sizeof(float);
  if (from.dtype != OG_FLOAT || count < 2) return ONNXD_OK;
  void *room;
  onnxd_status status = og_host->tensor_new(job, &from, &id, &room);
  if (status != ONNXD_OK) return status;
  float most = 0, value;
  for (size_t i = 0; i < count; i++) {
    memcpy(&value, (const uint8_t *)from.data + i * sizeof value, sizeof value);
    most = fmaxf(most, fabsf(value));
  }
  double scale = most > 0 ? most / 7.0 : 1.0;
  for (size_t i = 0; i < count; i++) {
    memcpy(&value, (const uint8_t *)from.data + i * sizeof value, sizeof value);
    ((float *)room)[i] = (float)(round(value / scale) * scale);
  }
  status = og_host->tensor_seal(job, id);
  og_set_handle(g, weight, id);
  og_msg *row = og_add_msg(g, log, 3);
  og_add_bytes(g, row, 1, og_bytes(weight, OG_TENSOR_NAME, 0));
  og_add_bytes(g, row, 2, og_text("4 bits in float"));
  return status;
}

static onnxd_status run(void *inst, const onnxd_job *job, onnxd_err *err) {
  (void)inst;
  onnxd_str model;
  onnxd_status status = og_host->graph_get(job, &model);
  if (status != ONNXD_OK) return og_fail(err, status, "no graph");
  og *g = og_open(model);
  if (g == NULL) return og_fail(err, ONNXD_INVALID, "the graph is not an encoded model");
  og_msg *log = og_msg_new(g);
  OG_EACH(field, g->graph, OG_GRAPH_INITIALIZER)
  if (status == ONNXD_OK) status = rounded(g, job, og_sub(g, field), log);
  onnxd_str out = og_encoded(g);
  if (status == ONNXD_OK) status = out.ptr ? og_host->graph_put(job, out) : ONNXD_OUT_OF_MEMORY;
  if (status == ONNXD_OK) status = og_report(g, job, ONNXD_ARTIFACT_QUANTIZE_LOG, log);
  og_close(g);
  return status == ONNXD_OK ? status : og_fail(err, status, "the host refused the result");
}

OG_EXPORT("org.onnxd.example-c-round", "0.1.0",
          "summary = 'A quantizer in C'\n"
          "licence = 'MIT OR Apache-2.0'\n"
          "[[components]]\n"
          "kind = 'quantizer'\n"
          "id = 'round'\n"
          "summary = 'Weights of 15 levels, in floating point'\n",
          create, run, og_no_extension);
