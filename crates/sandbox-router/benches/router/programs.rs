//! The backend and the proxies in front of it.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// The proxies' core, and that of everything else.
pub(crate) const PROXY_CORE: &str = "0";
pub(crate) const LOAD_CORE: &str = "1";

/// Something that answers.
pub(crate) struct Proxied {
    pub(crate) name: &'static str,
    pub(crate) pid: u32,
    pub(crate) http1: u16,
    /// Before each of the backends of HTTP/2.
    pub(crate) http2: [u16; 2],
}

/// The backends of HTTP/2: nginx writes each answer by itself, and nghttpd those together that are there at the same time, for a
/// quarter of the work.
pub(crate) const HTTP2_BACKENDS: [&str; 2] = ["nginx", "nghttpd"];

/// The body of all answers.
const BODY: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// All that is started, and stopped at the end.
pub(crate) struct Programs {
    pub(crate) direct: Proxied,
    pub(crate) nginx: Proxied,
    pub(crate) envoy: Proxied,
    pub(crate) router: Proxied,
    pub(crate) router_10k: Proxied,
    envoy_program: PathBuf,
    running: Vec<Child>,
    _dir: tempfile::TempDir,
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in &mut self.running {
            // Masters of nginx stop their workers when they are asked politely.
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let _ = child.wait();
        }
    }
}

fn ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|it| it.local_addr().unwrap().port())
}

impl Programs {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let envoy_program = envoy_program();
        let [back1, back2, back3, nginx1, envoy1, envoy2, envoy3, router, router_10k] = ports();
        let root = dir.path().to_str().unwrap();
        let mut running = Vec::new();
        let conf = write(dir.path(), "backend.conf", &backend(dir.path(), back1, back2));
        running.push(start(LOAD_CORE, "nginx", &["-c", &conf, "-p", root]));
        let direct = Proxied { name: "direct", pid: running[0].id(), http1: back1, http2: [back2, back3] };
        let conf = write(dir.path(), "nginx.conf", &nginx(dir.path(), nginx1, back1));
        running.push(start(PROXY_CORE, "nginx", &["-c", &conf, "-p", root]));
        let nginx = Proxied { name: "nginx", pid: running[1].id(), http1: nginx1, http2: [0; 2] };
        let listeners = [(envoy1, back1, "one"), (envoy2, back2, "two"), (envoy3, back3, "two-together")];
        let conf = write(dir.path(), "envoy.yaml", &envoy_conf(listeners));
        let arguments = ["-c", &conf, "--concurrency", "1", "--log-level", "off", "--disable-hot-restart"];
        running.push(start(PROXY_CORE, envoy_program.to_str().unwrap(), &arguments));
        let envoy = Proxied { name: "Envoy", pid: running[2].id(), http1: envoy1, http2: [envoy2, envoy3] };
        write(dir.path(), "index.html", BODY);
        let arguments = ["--no-tls", "-a", "127.0.0.1", "-d", root, &back3.to_string()];
        running.push(start(LOAD_CORE, "nghttpd", &arguments));
        let own = env::current_exe().unwrap();
        let mut ours = |port: u16, keys: &str| {
            let ports = [port, back1, back2, back3].map(|it| it.to_string());
            let arguments = ["serve", &ports[0], &ports[1], &ports[2], &ports[3], keys];
            let child = start(PROXY_CORE, own.to_str().unwrap(), &arguments);
            let proxied =
                Proxied { name: "router", pid: child.id(), http1: port, http2: [port + 1, port + 2] };
            running.push(child);
            proxied
        };
        // The router has a listener for each backend, side by side.
        let router = ours(triple(router), "1");
        let router_10k = ours(triple(router_10k), "10000");
        let all = Self { direct, nginx, envoy, router, router_10k, envoy_program, running, _dir: dir };
        wait(back3);
        for it in [&all.direct, &all.nginx, &all.envoy, &all.router, &all.router_10k] {
            wait(it.http1);
        }
        all
    }

    pub(crate) fn versions(&self) -> String {
        let said = |program: &str, argument: &str| {
            let output = Command::new(program).arg(argument).output().unwrap();
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
        };
        let nginx = said("nginx", "-v");
        let envoy = said(self.envoy_program.to_str().unwrap(), "--version");
        let envoy = envoy.split('/').find(|it| it.starts_with("1.")).unwrap_or("?").to_owned();
        format!("{}, Envoy {envoy}", nginx.trim_start_matches("nginx version: "))
    }
}

fn envoy_program() -> PathBuf {
    let cache = env::var("CAPT_CACHE").unwrap_or_else(|_| "../../.cache".to_owned());
    let versions = Path::new(&cache).join("envoy-venv/lib").read_dir();
    let mut programs = versions
        .expect("Envoy: run scripts/router-bench-tools")
        .map(|it| it.unwrap().path().join("site-packages/envoy/_bin/envoy"));
    programs.find(|it| it.exists()).expect("Envoy: run scripts/router-bench-tools")
}

/// Three free ports side by side.
fn triple(like: u16) -> u16 {
    let free = |port: &u16| (*port..*port + 3).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    (like..65_000).chain(20_000..like).find(free).expect("three free ports")
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn start(core: &str, program: &str, arguments: &[&str]) -> Child {
    Command::new("taskset")
        .args(["-c", core, program])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect(program)
}

fn wait(port: u16) {
    let limit = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < limit, "nothing listens at {port}");
        sleep(Duration::from_millis(50));
    }
}

fn common(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "daemon off; master_process on; worker_processes 1; error_log /dev/null; \
         events {{ worker_connections 16384; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 300s; \
         client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; \
         uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n"
    )
}

/// Answers with 50 bytes, in both versions.
fn backend(dir: &Path, http1: u16, http2: u16) -> String {
    let (head, body) = (common(dir), BODY);
    format!(
        "pid {}/backend.pid; {head} \
         server {{ listen 127.0.0.1:{http1}; location / {{ return 200 \"{body}\"; }} }}\n\
         server {{ listen 127.0.0.1:{http2} http2; http2_max_requests 1000000000; \
         location / {{ return 200 \"{body}\"; }} }} }}\n",
        dir.display()
    )
}

/// As people write it by hand: a map from the header to the upstream.
fn nginx(dir: &Path, port: u16, back: u16) -> String {
    let head = common(dir);
    format!(
        "pid {}/nginx.pid; {head}\
         upstream baseline {{ server 127.0.0.1:{back}; keepalive 64; keepalive_requests 1000000000; }}\n\
         upstream fork {{ server 127.0.0.1:{back}; keepalive 64; keepalive_requests 1000000000; }}\n\
         map $http_baggage $to {{ default baseline; \"~(^|,)\\s*sd-routing-key=k1\\s*([;,]|$)\" fork; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://$to; proxy_http_version 1.1; \
         proxy_set_header Connection \"\"; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }} }}\n",
        dir.display()
    )
}

/// One route by a regular expression, as meshes write it. A listener and its clusters for each backend: the version of HTTP follows
/// the caller's, as with the router.
fn envoy_conf(all: [(u16, u16, &str); 3]) -> String {
    let listeners = all.map(|(port, _, name)| envoy_listener(port, name)).concat();
    let clusters = all.map(|(_, back, name)| {
        let version =
            if name.starts_with("two") { "http2_protocol_options" } else { "http_protocol_options" };
        ["baseline", "fork"].map(|of| envoy_cluster(&format!("{of}-{name}"), back, version)).concat()
    });
    format!("static_resources:\n  listeners:\n{listeners}  clusters:\n{}", clusters.concat())
}

fn envoy_listener(port: u16, name: &str) -> String {
    format!(
        r#"  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          codec_type: AUTO
          use_remote_address: true
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match:
                  prefix: "/"
                  headers:
                  - name: baggage
                    string_match: {{safe_regex: {{regex: '^(.*,)?\s*sd-routing-key\s*=\s*k1\s*([;,].*)?$'}}}}
                route: {{cluster: fork-{name}}}
              - {{match: {{prefix: "/"}}, route: {{cluster: baseline-{name}}}}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
"#
    )
}

fn envoy_cluster(name: &str, back: u16, version: &str) -> String {
    format!(
        r#"  - name: {name}
    type: STATIC
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{{version}: {{}}}}
    load_assignment:
      cluster_name: {name}
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {back}}}}}}}
"#
    )
}
