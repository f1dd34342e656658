use super::*;
use crate::graph::bundle::tests::{checkpoint as stored, entry};
use crate::graph::fixture::{graph, node};
use crate::wire::proto::SavedModel;

#[test]
fn an_archive_says_what_it_lacks() {
    let graph_def = Some(graph(vec![node("v", "VarHandleOp", &[])], vec![]));
    let meta_graphs = vec![MetaGraphDef { graph_def, ..MetaGraphDef::default() }];
    let saved = SavedModel { meta_graphs, ..SavedModel::default() }.encode_to_vec();
    let said = |left_out: usize| {
        let mut all = vec![("saved_model.pb".to_owned(), saved.clone().into())];
        all.extend(stored(&[("v", entry(0, 0, &[1.0]))], &[1.0]));
        all.truncate(all.len() - left_out);
        archive(&Files::Fixed(all))
    };
    let what = "the file is an archive of a SavedModel";
    assert_eq!(said(0), what);
    assert_eq!(said(1), format!("{what} without `variables/variables.data-00000-of-00001`"));
    assert_eq!(said(2), format!("{what} without `variables/variables.index`"));
}
