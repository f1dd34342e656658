/* A pass in C: strip-doc drops the model's doc_string. Build it with
 *
 *     cc -std=c11 -shared -fPIC -O2 -I ../../core/plugin-abi -o libstrip_doc.so strip_doc.c
 */
#include "onnxd_graph.h"

static onnxd_status create(onnxd_str kind, onnxd_str params, void **inst, onnxd_err *err) {
  static int instance;
  if (!og_is(kind, "pass") || !og_names(params, "strip-doc"))
    return og_fail(err, ONNXD_INVALID, "this plugin has the pass `strip-doc` only");
  *inst = &instance;
  return ONNXD_OK;
}

static onnxd_status run(void *inst, const onnxd_job *job, onnxd_err *err) {
  (void)inst;
  onnxd_str model;
  onnxd_status status = og_host->graph_get(job, &model);
  if (status != ONNXD_OK) return og_fail(err, status, "no graph");
  og *g = og_open(model);
  if (g == NULL) return og_fail(err, ONNXD_INVALID, "the graph is not an encoded model");
  int64_t rewrites = 0;
  if (og_get(g->model, OG_MODEL_DOC, 0) != NULL) {
    og_remove(g->model, OG_MODEL_DOC, 0);
    rewrites = 1;
  }
  status = og_passed(g, job, "strip-doc", rewrites);
  og_close(g);
  return status == ONNXD_OK ? status : og_fail(err, status, "the host refused the result");
}

OG_EXPORT("org.onnxd.example-c", "0.1.0",
          "summary = 'An example in C'\n"
          "licence = 'MIT OR Apache-2.0'\n"
          "[[components]]\n"
          "kind = 'pass'\n"
          "id = 'strip-doc'\n"
          "summary = \"Drops the model's doc_string\"\n",
          create, run, og_no_extension);
