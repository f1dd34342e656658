use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::testing::Texts;
use super::*;

fn parse(text: &str) -> Ini {
    try_parse(&[("n.ini", text)]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn try_parse(files: &[(&'static str, &str)]) -> Result<Ini, Diagnostics> {
    Ini::parse("n.ini", &Texts(files.to_vec()))
}

fn refusal(files: &[(&'static str, &str)]) -> String {
    match try_parse(files) {
        Ok(_) => panic!("parses: {files:?}"),
        Err(e) => e.to_string(),
    }
}

fn read<T: FromText>(ini: &Ini, section: &str, key: &str) -> Result<T, String> {
    let section = ini.section(section).expect(section);
    section.required(key).map_err(|e| e.to_string())
}

fn text(ini: &Ini, section: &str, key: &str) -> String {
    read(ini, section, key).unwrap()
}

#[test]
fn sections_keep_their_order() {
    let ini = parse("G=1\n[b]\n[a]\nX=2\r\n[ c ]\n");
    let names: Vec<&str> = ini.sections().map(SectionRef::name).collect();
    assert_eq!(names, ["b", "a", " c "]);
    assert_eq!(ini.global().get::<usize>("G").unwrap(), Some(1));
    assert_eq!(ini.section("a").unwrap().place(), "n.ini:3");
    assert!(ini.section("C").is_none());
}

#[test]
fn inheritance_copies_what_stands_before() {
    let ini = parse("[one]\nA=1\nB=1\n[two]\nB=2\nC=2\n[c] one two\nC=3\n[d]c\n[one2] one\nA=9\n");
    let values = |s| ["A", "B", "C"].map(|k| text(&ini, s, k));
    assert_eq!(values("c"), ["1", "1", "3"]);
    assert_eq!(values("d"), ["1", "1", "3"]);
    assert!(ini.warnings().is_empty(), "overriding is no mistake");
}

#[test]
fn inheriting_from_a_later_section_is_refused() {
    let message = refusal(&[("n.ini", "[conv1] conv_deff\n[conv_def]\n")]);
    assert!(message.contains("`conv_deff` is not known here"), "{message}");
    assert!(message.contains("layer conv1 at n.ini:1"), "{message}");
    assert!(refusal(&[("n.ini", "[a]\n[b] aa\n")]).contains("Did you mean `a`"));
    assert!(refusal(&[("n.ini", "[a] a\n")]).contains("`a` is not known here"));
}

#[test]
fn repeated_names() {
    let message = refusal(&[("n.ini", "[a]\nX=1\n[b]\n[a]\nX=2\n")]);
    assert!(message.contains("section `a` stands at n.ini:1 already"), "{message}");
    let ini = parse("[a]\nX=1\nX=2\nSolvers.A=1\nSolvers.A=2\n");
    assert_eq!(text(&ini, "a", "X"), "2");
    let warnings = ini.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].message.contains("the value at n.ini:2 is ignored"), "{}", warnings[0]);
}

#[test]
fn errors_come_together_with_their_places() {
    let message = refusal(&[("n.ini", "x\n[a]\nnothing\n[a]\n[]\nA=\"1\n")]);
    for part in [
        "n.ini:1: `x` has no `=`", "at n.ini:3", "at n.ini:4", "n.ini:5: a section needs",
        "never closed",
    ] {
        assert!(message.contains(part), "{part} in\n{message}");
    }
    let many = refusal(&[("n.ini", &"junk\n".repeat(10_000))]);
    assert_eq!(many.lines().count(), 50);
    assert!(refusal(&[]).contains("`n.ini` is missing"));
}

#[test]
fn variables() {
    let ini = parse(
        "$SIZE=29\n$HALF=$(${SIZE} // 2)\n[a]\nX=${SIZE}\nY=${HALF}\nZ=${NONE}/z\n\
         [b]\n$SIZE=7\nX=${SIZE} ${HALF}\nN=${SECTION_NAME}/${PREV_SECTION_NAME}\n[c] b\nN=1\n",
    );
    assert_eq!(text(&ini, "a", "X"), "29");
    assert_eq!(text(&ini, "a", "Y"), "14");
    assert_eq!(text(&ini, "a", "Z"), "${NONE}/z");
    assert_eq!(text(&ini, "b", "X"), "7 3");
    assert_eq!(text(&ini, "b", "N"), "b/a");
    assert_eq!(text(&ini, "c", "X"), "7 3");
    let problem = read::<usize>(&ini, "a", "Z").unwrap_err();
    assert!(problem.contains("variable") && problem.contains("n.ini:6"), "{problem}");
}

#[test]
fn references() {
    let ini = parse(
        "[a]\nN=4\nE=$(2 * ${K} + [b]N )\n$K=3\n[b]\nN=[a]N\nL=[a]N [c]N [a]N\nP=[a]_W [a]_H\n\
         D=$(2*[a]N)\nM=[a]Q\nO=x[a]N [",
    );
    assert_eq!(text(&ini, "b", "N"), "4");
    assert_eq!(text(&ini, "a", "E"), "10");
    assert_eq!(text(&ini, "b", "L"), "4 [c]N 4");
    let problem = read::<usize>(&ini, "b", "D").unwrap_err();
    assert!(problem.contains("no property `N)`") && problem.contains("blank before the `)`"));
    let problem = read::<usize>(&ini, "b", "M").unwrap_err();
    assert!(problem.contains("`a` has no property `Q`") && problem.contains("n.ini:10"));
    assert!(read::<usize>(&ini, "b", "O").unwrap_err().contains("never closed by `]`"));
    assert!(read::<usize>(&ini, "b", "P").unwrap_err().contains("before the section has been"));
    let a = ini.section("a").unwrap();
    ini.set_property(a, "_W", 5);
    ini.set_property(a, "_H", 6);
    assert_eq!(read::<Vec<usize>>(&ini, "b", "P"), Ok(vec![5, 6]));
}

#[test]
fn a_reference_is_resolved_where_it_stands() {
    let ini = parse("$V=0\n[a]\n$V=1\nX=${V}\n[b]\n$V=2\nY=[a]X ${V}\n");
    assert_eq!(text(&ini, "b", "Y"), "1 2");
}

#[test]
fn expressions_in_text() {
    let ini = parse("$A=0.5\n[a]\nX=$(int(64 * ${A}))\nY=a$(1+1)b$( 2 * $(3) )\nZ=$(1\nW=$(1/0)\n");
    assert_eq!(read::<usize>(&ini, "a", "X"), Ok(32));
    assert_eq!(text(&ini, "a", "Y"), "a2b6");
    assert!(read::<usize>(&ini, "a", "Z").unwrap_err().contains("never closed by `)`"));
    let problem = read::<usize>(&ini, "a", "W").unwrap_err();
    assert!(problem.starts_with("N0211") && problem.contains("divides by zero"), "{problem}");
}

#[test]
fn values_must_not_depend_on_themselves() {
    let ini = parse("$P=${Q}\n$Q=${P}\n[a]\nX=[b]Y\nZ=${P}\n[b]\nY=[a]X\n");
    let problem = read::<usize>(&ini, "a", "X").unwrap_err();
    assert!(problem.contains("[a]X -> [b]Y -> [a]X"), "{problem}");
    assert!(read::<usize>(&ini, "a", "Z").unwrap_err().contains("depends on itself"));
}

#[test]
fn exploding_values_end_quickly() {
    let doubling = |last: &str| {
        let lines = (0..60).map(|n| format!("$V{n}=${{V{}}}${{V{}}}\n", n + 1, n + 1));
        format!("{}$V60={last}\n[a]\nX=${{V0}}\n", lines.collect::<String>())
    };
    for last in ["", "xxxxxxxx"] {
        let started = Instant::now();
        let problem = read::<String>(&parse(&doubling(last)), "a", "X").unwrap_err();
        assert!(problem.starts_with("N0213"), "{problem}");
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
    let chain: String = (0..200).map(|n| format!("$V{n}=${{V{}}}\n", n + 1)).collect();
    let ini = parse(&format!("{chain}[a]\nX=${{V0}}\n"));
    assert!(read::<String>(&ini, "a", "X").unwrap_err().contains("deeper than"));
}

#[test]
fn typed_reading() {
    let ini =
        parse("[a]\nB=1\nT=True\nU=-1\nD=3 5\nS=16.0\nK=1,000\nE=\n[b]\nPooling=max\nP=Average");
    assert_eq!(read::<bool>(&ini, "a", "B"), Ok(true));
    assert_eq!(read::<usize>(&ini, "a", "S"), Ok(16));
    assert_eq!(read::<usize>(&ini, "a", "K"), Ok(1000));
    assert_eq!(read::<Vec<usize>>(&ini, "a", "D"), Ok(vec![3, 5]));
    for (key, reason) in [("T", "must be 0 or 1, found `True`"), ("U", "0 or 1"), ("E", "``")] {
        let problem = read::<bool>(&ini, "a", key).unwrap_err();
        assert!(problem.starts_with("N0204") && problem.contains(reason), "{problem}");
    }
    assert!(read::<usize>(&ini, "a", "Bb").unwrap_err().contains("`Bb` is missing"));
    let b = ini.section("b").unwrap();
    let kinds = [("Max", 1), ("Average", 2)];
    assert_eq!(b.choice("P", &kinds).unwrap(), Some(2));
    assert_eq!(b.choice("None", &kinds).unwrap(), None);
    let problem = b.choice("Pooling", &kinds).unwrap_err().to_string();
    assert!(problem.contains("one of Max, Average") && problem.contains("Did you mean `Max`"));
    assert_eq!(b.or("Stride", 1_usize).unwrap(), 1);
}

#[test]
fn names_are_split_at_commas() {
    let ini = parse("[a]\n[ b]\n[c]\nInput=a, b, c,d\n");
    let names = ini.section("c").unwrap().names("Input").unwrap();
    assert_eq!(names, ["a", " b", "c", "d"]);
    assert!(ini.section("c").unwrap().names("None").unwrap().is_empty());
}

#[test]
fn unread_properties_are_pointed_out_once() {
    let ini = parse(
        "[def]\nStrids=2\nWeightsFiller=He\nSolvers.X=${NO}\n[a] def\n$V=1\nNbOutputs=3\nLearn=1\n\
         [b] def\nNbOutputs=[a]Own\n[c]\nOwn=1\n[a2]\nOwn=4\n",
    );
    for name in ["a", "b"] {
        let section = ini.section(name).unwrap();
        let _ = section.get::<usize>("NbOutputs");
        ["Stride", "NbOutputs"].iter().for_each(|key| section.asked(key));
        section.warn_unread(&[]);
    }
    let warnings = ini.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let shown = warnings[0].to_string();
    assert!(shown.contains("`Strids`") && shown.contains("n.ini:2"), "{shown}");
    assert!(shown.contains("Did you mean `Stride`"), "{shown}");
}

#[test]
fn parameters_come_from_configuration_sections() {
    let ini = parse(
        "DefaultModel=Frame_CUDA\n[a]\nConfigSection=one, two\nEpsilon=3\n[one]\nNoBias=1\nN=1\n\
         [two]\nN=2\n[b]\nNoBias=1\n[c]\nConfigSection(Frame)=two\nConfigSection=one\n\
         [d]\nConfigSection=twoo\n[e]\nModel=Spike\nConfigSection(Frame)=two\n",
    );
    let section = |name| ini.section(name).unwrap();
    assert_eq!(section("a").parameter("NoBias").unwrap(), Some(true));
    assert_eq!(section("a").parameter::<usize>("N").unwrap(), Some(2));
    assert_eq!(section("c").parameter::<usize>("N").unwrap(), Some(2));
    assert_eq!(section("e").parameter::<usize>("N").unwrap(), None);
    assert!(ini.warnings().is_empty());
    assert_eq!(section("b").parameter("NoBias").unwrap(), Some(true));
    assert_eq!(section("a").parameter::<usize>("Epsilon").unwrap(), Some(3));
    let warnings: Vec<String> = ini.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].contains("N2D2 would ignore"), "{}", warnings[0]);
    let problem = section("d").parameter::<usize>("N").unwrap_err().to_string();
    assert!(problem.contains("`twoo`, which is missing") && problem.contains("mean `two`"));
}

/// Text that section `[t]` with `parameters` produces from `template`.
fn produced(template: &str, parameters: &str) -> Result<String, String> {
    let top = format!("[t@t.tpl]\n{parameters}\n");
    let template = format!("[out]\nX=<{template}>\n");
    let ini = try_parse(&[("n.ini", &top), ("t.tpl", &template)]).map_err(|e| e.to_string())?;
    Ok(text(&ini, "out", "X"))
}

#[test]
fn templates() {
    let arrays = "A=2\nA[0].P=x\nA[1].P=y\nA[1].Q=1\nA[1].B=2\nA[1].B[0].R=r\nA[1].B[1].R=s";
    for (template, parameters, expected) in [
        ("{{V}}", "V=$(1+2)", "3"),
        ("{{SECTION_NAME}}/{{SECTION_FILE_NAME}}", "", "t/t"),
        ("{% if V == a %}yes{% endif %}", "V=a", "yes"),
        ("{% if V != a %}yes{% else %}no{% endif %}", "V=a", "no"),
        ("{% if V exists %}yes{% else %}no{% endif %}", "", "no"),
        ("{% if V not_exists %}yes{% endif %}", "", "yes"),
        ("{%if V exists%}{% if W exists %}1{% else %}2{% endif %}{% endif %}", "V=1", "2"),
        ("{% for I in range(3) %}{{I}},{% endfor %}", "", "0,1,2,"),
        ("{% for I in range(1,3) %}{{I}},{% endfor %}", "", "1,2,"),
        ("{% for I in range(A, B) %}{{I}}{% endfor %}", "A=2\nB=4", "23"),
        ("{% for I in range(0) %}{{I}}{% endfor %}", "", ""),
        (
            "{% for I in range(2) %}{% for J in range(2) %}{{I}}{{J}} {% endfor %}{% endfor %}",
            "",
            "00 01 10 11 ",
        ),
        ("{% block A %}{{#}}{{.P}} {% endblock %}", arrays, "0x 1y "),
        ("{% block A %}{% if .Q exists %}{{.P}}{% endif %}{% endblock %}", arrays, "y"),
        (
            "{% block A %}{% if .B exists %}{% block .B %}{{#}}{{.R}}{% endblock %}{% endif %}\
          {% endblock %}",
            arrays,
            "0r1s",
        ),
        ("{% set V %}a{{W}}{% endset %}{{V}}", "W=b", "ab"),
        ("{% set V %}2{% endset %}{{V}}", "V=1", "2"),
        ("{% for I in range(2) %}{% set V %}{{I}}{% endset %}{% endfor %}{{V}}", "", "1"),
        ("{% block A %}{% set V %}{{#}}{% endset %}{% endblock %}{{V}}", "A=2\nV=v", "v"),
        ("{ % }{{V}} }}", "V=1", "{ % }1 }}"),
    ] {
        let expected = Ok(format!("<{expected}>"));
        assert_eq!(produced(template, parameters), expected, "{template}");
    }
}

#[test]
fn template_errors() {
    for (template, parameters, reason) in [
        ("{{V}}", "W=1", "needs the parameter `V`"),
        ("{{NB_FILTER}}", "NB_FILTERS=1", "Did you mean `NB_FILTERS`"),
        ("{{ V }}", "V=1", "needs the parameter ` V `"),
        ("{% if V == 1 %}{% endif %}", "", "needs the parameter `V`"),
        ("{% for I in range(N) %}{% endfor %}", "", "needs the parameter `N`"),
        ("{% for I in range(N) %}{% endfor %}", "N=x", "must be a number"),
        ("{% for I in range(1e300) %}{% endfor %}", "", "must be a number up to"),
        ("{% for I in range(2) %}{% endfor %}", "I=1", "already defined"),
        ("{% block A %}{% endblock %}", "A=-1", "number of items"),
        ("{% block A %}{% endblock %}", "A=99999999999", "steps to render"),
        (
            "{% for I in range(999999) %}{{V}}{% endfor %}",
            "V=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "bytes",
        ),
        ("{{V", "V=1", "never closed"),
        ("{% include x.tpl %}", "", "`x.tpl` is missing"),
        ("{% include t.tpl %}", "", "include each other: t.tpl -> t.tpl"),
    ] {
        let problem = produced(template, parameters).unwrap_err();
        assert!(problem.contains(reason), "{template}: {problem}");
        assert!(problem.contains("t.tpl:2"), "{template}: {problem}");
    }
}

#[test]
fn template_sections_stand_where_they_are_used() {
    let block = "$INNER=1\n[{{SECTION_NAME}}_a] def\nInput={{INPUT}}\n\n{% if WIDE exists %}\n\
                 [{{SECTION_NAME}}_b]\nInput={{SECTION_NAME}}_a\nN=$([{{INPUT}}]N * 2)\n\
                 P=${PREV_SECTION_NAME} ${PARENT_SECTION_NAME}\n{% endif %}\n";
    let top = "[def]\nType=Conv\n[x]\nN=4\n[u@${MODELS}/b.tpl]\nINPUT=x\nWIDE=1\n\
               [y]\nP=${PREV_SECTION_NAME}\n";
    let ini = try_parse(&[("n.ini", top), ("b.tpl", block)]).unwrap();
    let names: Vec<&str> = ini.sections().map(SectionRef::name).collect();
    assert_eq!(names, ["def", "x", "u", "u_a", "u_b", "y"]);
    assert_eq!(text(&ini, "u_a", "Type"), "Conv");
    assert_eq!(text(&ini, "u_b", "N"), "8");
    assert_eq!(text(&ini, "u_b", "P"), "u_a u");
    assert_eq!(text(&ini, "y", "P"), "u_b");
    assert_eq!(ini.section("u_b").unwrap().place(), "b.tpl:6");
    assert_eq!(text(&ini, "u", "WIDE"), "1");
}

#[test]
fn templates_in_templates() {
    let files = |inner: &'static str| {
        [
            ("net/n.ini", "[a@tpl/outer.tpl]\nN=2\n"),
            ("net/tpl/outer.tpl", "[{{SECTION_NAME}}.in@inner.tpl]\nM={{N}}\n"),
            ("net/inner.tpl", inner),
            ("net/line.tpl", "Y={{M}}\n"),
        ]
    };
    let found = Ini::parse("net/n.ini", &Texts(files("[z]\n{% include line.tpl %}").to_vec()));
    assert_eq!(text(&found.unwrap(), "z", "Y"), "2");
    let looped = Ini::parse("net/n.ini", &Texts(files("[b@tpl/outer.tpl]\nN=1\n").to_vec()));
    let problem = looped.err().unwrap().to_string();
    let chain = "net/tpl/outer.tpl -> net/inner.tpl -> net/tpl/outer.tpl";
    assert!(problem.contains(chain), "{problem}");
}

#[test]
fn headers_with_odd_at_signs_are_names() {
    let ini = parse("[a@]\n[@b]\n[a@b@c]\n");
    assert_eq!(ini.sections().count(), 3);
    let problem = refusal(&[("n.ini", "[a@../../x.tpl]\n")]);
    assert!(problem.starts_with("N0103") && problem.contains("as `x.tpl`"), "{problem}");
    assert!(problem.contains("layer a at n.ini:1"), "{problem}");
}

#[test]
fn hostile_sizes_end_quickly() {
    let wide: String = (0..2000).map(|n| format!("K{n}=1\n")).collect();
    let heirs: String = (0..2000).map(|n| format!("[h{n}] w\n")).collect();
    let started = Instant::now();
    let problem = refusal(&[("n.ini", &format!("[w]\n{wide}{heirs}"))]);
    assert!(problem.starts_with("N0213") && problem.contains("properties"), "{problem}");
    let sections: String = (0..100_001).map(|n| format!("[{n}]\n")).collect();
    assert!(refusal(&[("n.ini", &sections)]).contains("sections"));
    assert!(refusal(&[("n.ini", &" ".repeat(17 << 20))]).contains("are allowed"));
    let long = "n".repeat(1 << 20);
    let many: String = (0..50_000).map(|n| format!("[section{n}]\n")).collect();
    let heirs: String = (0..60).map(|n| format!("[h{n}] {long}\n[i{n}] sektion\n")).collect();
    assert!(refusal(&[("n.ini", &format!("{many}{heirs}"))]).len() < 50_000);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// Reads everything that can be read.
fn exercise(files: &[(&'static str, Vec<u8>)]) {
    if let Ok(ini) = Ini::parse("n.ini", &Texts(files.to_vec())) {
        for section in ini.sections().chain([ini.global()]) {
            for key in section.keys() {
                let _ = section.get::<Vec<f64>>(key);
                let _ = section.parameter::<i64>(key);
            }
            section.asked("Stride");
            section.warn_unread(&[]);
        }
    }
}

/// Pieces that mean something, so that random texts get past the first rules.
fn fragment() -> impl Strategy<Value = String> {
    let words = [
        "[a]", "[b]", "[", "]", "[a@t.tpl]", "[{{SECTION_NAME}}x]", "X=", "A=", "A[0].P=", "\n",
        "\n", "\\\n", "\"", ";", "${X}", "$(", ")", "1", "+", "**", "/", " ", "{{", "}}", "{{X}}",
        "{%", "%}", "{% if X exists %}", "{% else %}", "{% endif %}", "{% for I in range(3) %}",
        "{% endfor %}", "{% block A %}", "{{.P}}", "{{#}}", "{% endblock %}", "{% set Y %}",
        "{% endset %}", "{% include t.tpl %}", "[a]X ", "ConfigSection=", "a,b", "\u{feff}", "é",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(
        top in proptest::collection::vec(any::<u8>(), 0..300),
        template in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let prefix = b"[a@t.tpl]\nX=1\n";
        exercise(&[("n.ini", top.clone())]);
        exercise(&[("n.ini", [&prefix[..], &top].concat()), ("t.tpl", template)]);
    }

    #[test]
    fn random_grammar_never_panics(
        top in proptest::collection::vec(fragment(), 0..40),
        template in proptest::collection::vec(fragment(), 0..40),
    ) {
        let top = format!("[a@t.tpl]\nX=1\nA=2\n{}", top.concat());
        exercise(&[("n.ini", top.into_bytes()), ("t.tpl", template.concat().into_bytes())]);
    }
}
