//! The config file: it has the names of the flags; flags override it; unknown names
//! are errors.

use crate::run::{TestDirectory, run};

#[test]
fn flags_override_the_config_file() {
    let place = TestDirectory::new();
    let text = format!(
        "[put]\ndata = {:?}\nkeyspace = \"a\"\n[get]\ndata = {:?}\nkeyspace = \"a\"\njson = true\n\
         [scan]\nkeys_only = false\nlimit = 1\n",
        place.data(),
        place.data()
    );
    let config = place.write("tidekv.toml", text);
    let config = config.to_str().unwrap();
    run(&["--config", config, "put", "k", "in a"]).ok();
    run(&["put", "--config", config, "--keyspace", "b", "k", "in b"]).ok();
    let json = run(&["get", "--config", config, "k"]);
    assert_eq!(json.ok(), b"{\"key\":\"k\",\"value\":\"in a\"}\n");
    let json = run(&["get", "k", "--keyspace=b", "--config", config]);
    assert_eq!(json.ok(), b"{\"key\":\"k\",\"value\":\"in b\"}\n");
}

#[test]
fn errors_name_the_invalid_setting_of_the_config_file() {
    let place = TestDirectory::new();
    for (text, says) in [
        ("[import]\nmemry = \"1GiB\"", &["memry", "import", "memory"][..]),
        ("[imprt]\nmemory = \"1GiB\"", &["imprt", "import"]),
        ("memory = \"1GiB\"", &["memory"]),
        ("import = 3", &["import", "[import]"]),
        ("[get]\nconfig = \"x\"", &["config"]),
        ("[get]\njson = 1", &["json", "true or false"]),
        ("[get]\nkeyspace = [\"a\"]", &["keyspace", "a string"]),
        ("[get\n", &["TOML", "line 1"]),
    ] {
        let config = place.write("tidekv.toml", text);
        let done = place.run("get", &["--config", config.to_str().unwrap(), "k"]);
        done.fails(2, &[says, &["tidekv.toml"]].concat());
    }
    let missing = place.file("missing.toml");
    place.run("get", &["--config", missing.to_str().unwrap(), "k"]).fails(1, &["missing.toml"]);
}
