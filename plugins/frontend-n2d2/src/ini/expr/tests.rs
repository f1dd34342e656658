use super::evaluate;

fn check(table: &[(&str, &str)]) {
    for (text, value) in table {
        let found = evaluate(text).map(|n| n.to_string());
        assert_eq!(found.as_deref(), Ok(*value), "{text}");
    }
}

#[test]
fn arithmetic() {
    check(&[
        ("1", "1"),
        (" 2 + 3*4 ", "14"),
        ("(2+3)*4", "20"),
        ("10 - 4 - 3", "3"),
        ("64 / 8 / 4", "2"),
        ("7 / 2", "3.5"),
        ("-8 / 4", "-2"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("7 // -2", "-4"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("7.5 // 2", "3.0"),
        ("-7.5 % 2", "0.5"),
        ("0.5 * 4", "2.0"),
        ("1e3", "1000.0"),
        ("1e-3 + .5 + 5.", "5.501"),
        ("-0.0", "0.0"),
        ("+3", "3"),
        ("--3", "3"),
        ("9223372036854775807", "9223372036854775807"),
    ]);
}

#[test]
fn powers() {
    check(&[
        ("2**10", "1024"),
        ("2**3**2", "512"),
        ("-2**2", "-4"),
        ("(-2)**2", "4"),
        ("2**-1", "0.5"),
        ("4**0.5", "2.0"),
        ("8**(-1.0/(2*3-2))", "0.5946035575013605"),
        ("1**99999999999", "1"),
        ("(-1)**99999999999", "-1"),
        ("0**0", "1"),
    ]);
}

#[test]
fn functions() {
    check(&[
        ("int(64 * 0.75)", "48"),
        ("int(-1.9)", "-1"),
        ("int(max(1280, 1280 * 0.5))", "1280"),
        ("max(1, 2.5, 2)", "2.5"),
        ("min(3, 2)", "2"),
        ("max(1, 1.0)", "1"),
        ("float(3)", "3.0"),
        ("round(2.5)", "2"),
        ("round(3.5)", "4"),
        ("round(0.125, 2)", "0.12"),
        ("round(7)", "7"),
        ("abs(-4)", "4"),
        ("abs(-4.5)", "4.5"),
    ]);
}

#[test]
fn conditions() {
    check(&[
        ("1 < 2", "1"),
        ("1 < 2 < 2", "0"),
        ("1 == 1.0", "1"),
        ("3 != 3", "0"),
        ("not 0", "1"),
        ("not 1 == 2", "1"),
        ("2 and 3", "3"),
        ("0 and 1/0", "0"),
        ("0 or 5", "5"),
        ("4 or 1/0", "4"),
        ("0.0 if 8 > 0 else 1.0", "0.0"),
        ("1/0 if 0 else 7", "7"),
        ("1 if 0 else 2 if 0 else 3", "3"),
        ("(1 if True else 2) + 1", "2"),
        ("False", "0"),
    ]);
}

#[test]
fn refusals() {
    for (text, reason) in [
        ("", "a number is expected, not the end"),
        ("1 +", "a number is expected"),
        ("1 2", "`2` is not expected"),
        ("(1", "`)` is expected"),
        ("1)", "`)` is not expected"),
        ("1/0", "divides by zero"),
        ("1 // 0", "divides by zero"),
        ("1.5 % 0", "divides by zero"),
        ("0 ** -1", "divides by zero"),
        ("9223372036854775807 + 1", "too large"),
        ("(-9223372036854775807 - 1) // -1", "too large"),
        ("(-9223372036854775807 - 1) % -1", "too large"),
        ("abs(-9223372036854775807 - 1)", "too large"),
        ("9223372036854775808", "too large"),
        ("2**64", "too large"),
        ("10.0**400", "too large"),
        ("(-8)**0.5", "not a number"),
        ("int(1e300)", "too large"),
        ("1e999", "too large"),
        ("0x10", "not a number"),
        ("1 if 2", "`else` is expected"),
        ("open(1)", "`open` is not known"),
        ("__import__", "is not known"),
        ("int", "needs arguments"),
        ("int()", "0 arguments"),
        ("max()", "0 arguments"),
        ("int(1, 2)", "2 arguments"),
        ("'a'", "not arithmetic"),
        ("2 * ${LR}", "variable `${LR}` is not defined"),
        ("[c1]X + 1", "no section"),
        ("é", "not arithmetic"),
    ] {
        let found = evaluate(text).unwrap_err();
        assert!(found.contains(reason), "{text}: {found}");
    }
}

#[test]
fn limits() {
    let nest =
        |open: &str, n: usize, close: &str| format!("{}1{}", open.repeat(n), close.repeat(n));
    assert!(evaluate(&nest("(", 60, ")")).is_ok());
    for deep in [nest("(", 100, ")"), nest("-", 100, ""), nest("not ", 100, "")] {
        assert!(evaluate(&deep).unwrap_err().contains("nested"), "{deep}");
    }
    assert!(evaluate(&"1**".repeat(100)).unwrap_err().contains("nested"));
    assert!(evaluate(&"1 ".repeat(4000)).unwrap_err().contains("longer"));
    let long = format!("0{}", "+1".repeat(2000));
    assert_eq!(evaluate(&long).map(|n| n.to_string()).as_deref(), Ok("2000"));
}
