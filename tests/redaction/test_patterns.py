"""Error texts as libraries write them, and messages as tools write them: what must not leave, and what must stay.

The texts follow the form of real errors (drivers, HTTP clients, cloud services, interpreters); every name, key and
address in them is made up.
"""

# ruff: noqa: E501 - texts are on one line each, as they were written
from __future__ import annotations

import itertools
import json

import pytest

from codecall.options import SanitizationOptions
from codecall.redaction.clean import clean_text, clean_value, environment_secrets
from codecall.redaction.patterns import CREDENTIAL, ENVIRONMENT, MODULE, PATTERNS
from codecall.sandbox.enclave import Enclave

ON = SanitizationOptions()
OFF = SanitizationOptions(remove_stack_traces=False, remove_file_paths=False)

LEAKS: list[tuple[str, tuple[str, ...]]] = [
    ("[Errno 2] No such file or directory: '/does/not/exist'", ("/does",)),
    ("ENOENT: no such file or directory, open '/drop/a b'", ("/drop", "a b")),
    ('EACCES: permission denied, mkdir "/vol1/x"', ("/vol1",)),
    ("[Errno 21] Is a directory: b'/kept'", ("/kept",)),
    (
        'connection to server at "db-prod-3.crm.internal" (10.4.12.8), port 5432 failed: FATAL:  password authentication failed for user "crm_rw"',
        (
            "db-prod-3",
            "10.4.12.8",
        ),
    ),
    (
        'connection failed: connection to server on socket "/var/run/postgresql/.s.PGSQL.5432" failed: No such file or directory',
        ("/var/run",),
    ),
    (
        '(psycopg2.OperationalError) could not translate host name "pg-main" to address: Name or service not known\n(Background on this error at: https://sqlalche.me/e/20/e3q8)',
        ("pg-main",),
    ),
    (
        "(pymysql.err.OperationalError) (2003, \"Can't connect to MySQL server on 'mysql-primary' ([Errno 111] Connection refused)\")",
        ("mysql-primary",),
    ),
    ("(1045, \"Access denied for user 'crm'@'10.2.0.4' (using password: YES)\")", ("10.2.0.4",)),
    ("(1045, \"Access denied for user 'crm'@'app-7f9c' (using password: YES)\")", ("app-7f9c",)),
    ("Could not parse SQLAlchemy URL from string 'postgresql+psycopg://crm:hunter2@db/crm'", ("hunter2",)),
    (
        "invalid dsn: host=db-main port=5432 dbname=crm user=crm password=hunter2 sslmode=require",
        (
            "hunter2",
            "db-main",
        ),
    ),
    (
        "invalid dsn: host=db-main user=crm password='hun ter2' sslmode=require",
        (
            "hun ter2",
            " ter2",
        ),
    ),
    ("unable to open database file: /srv/crm/data/orders.sqlite3", ("/srv",)),
    ("ORA-12541: TNS:no listener (DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=ora-prod)(PORT=1521)))", ("ora-prod",)),
    (
        "db-shard-00-01.mongo.internal:27017: [Errno 111] Connection refused (configured timeouts: socketTimeoutMS: 20000.0ms), Topology Description: <TopologyDescription id: 6, servers: [<ServerDescription ('db-shard-00-01.mongo.internal', 27017) server_type: Unknown>]>",
        ("db-shard",),
    ),
    (
        "mongodb://root:ex%40mple@mongo-0.mongo.svc.cluster.local:27017,mongo-1.mongo.svc.cluster.local:27017/?replicaSet=rs0",
        (
            "ex%40mple",
            "mongo-0",
            "mongo-1",
        ),
    ),
    ("Error 111 connecting to redis-main:6379. Connection refused.", ("redis-main",)),
    ("Error -2 connecting to cache.prod.svc:6379. Name or service not known.", ("cache.prod",)),
    ("Error while reading from redis-7:6379 : (104, 'Connection reset by peer')", ("redis-7",)),
    ("unix:///var/run/docker.sock: permission denied", ("/var/run",)),
    ("[Errno 2] No such file or directory: '/run/secrets/db_password'", ("/run",)),
    ("[Errno 13] Permission denied: 'C:\\\\Users\\\\svc-crm\\\\AppData\\\\Local\\\\crm.db'", ("svc-crm",)),
    ("[Errno 13] Permission denied: b'/home/ann/x'", ("/home",)),
    (
        "HTTPConnectionPool(host='billing-svc', port=8080): Max retries exceeded with url: /v1/charge?api_key=sk_live_abcdefgh (Caused by NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f2b3c4d5e60>: Failed to establish a new connection: [Errno -2] Name or service not known'))",
        (
            "billing-svc",
            "sk_live_abc",
            "0x7f2b",
        ),
    ),
    ("HTTPSConnectionPool(host='vault.corp', port=443): Read timed out. (read timeout=10)", ("vault.corp",)),
    ("Cannot connect to host payments.internal:443 ssl:default [Name or service not known]", ("payments.internal",)),
    (
        "Cannot connect to host payments:8080 ssl:False [Connect call failed ('10.1.2.3', 8080)]",
        (
            "payments:8080",
            "10.1.2.3",
        ),
    ),
    (
        "Client error '401 Unauthorized' for url 'http://10.0.0.5:8080/internal/users?token=abc123def456'",
        (
            "10.0.0.5",
            "abc123def",
        ),
    ),
    (
        "Server error '500' for url 'https://api.acme.example/v1/x?access_token=ya29.A0ARrdaM-abcdef123456&q=1'",
        ("ya29",),
    ),
    (
        "Server error '500' for url 'https://api.acme.example/v1/x?sig=2f3a4b5c6d7e8f90aa&sv=2020-01-01'",
        ("2f3a4b5c6d7e8f90aa",),
    ),
    (
        "https://acct.blob.core.windows.net/c/b?sv=2022-11-02&se=2024-01-01&sr=b&sp=r&sig=Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA%3D%3D",
        ("Zm9vYmFy",),
    ),
    (
        "https://s3.amazonaws.com/b/k?X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20240101&X-Amz-Signature=fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024&X-Amz-Security-Token=FwoGZXIvYXdzEJr",
        (
            "AKIA",
            "fe5f80",
            "FwoGZ",
        ),
    ),
    ("[Errno 111] connect call failed ('::1', 5432, 0, 0)", ("'::1'",)),
    ("[Errno 111] Connect call failed ('127.0.0.1', 5432)", ("127.0.0.1",)),
    ("dial tcp 10.96.0.1:443: connect: connection refused", ("10.96",)),
    (
        "dial tcp: lookup redis on 10.96.0.10:53: no such host",
        (
            "10.96",
            "lookup redis ",
        ),
    ),
    (
        'Get "http://consul.service.consul:8500/v1/kv/x": dial tcp: lookup consul.service.consul: no such host',
        ("consul.service",),
    ),
    (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing dial unix /run/containerd/containerd.sock"',
        ("/run",),
    ),
    ("java.net.UnknownHostException: kafka-broker-1", ("kafka-broker-1",)),
    (
        "java.net.ConnectException: Connection refused: kafka-0.kafka-headless.prod.svc.cluster.local/10.8.0.12:9092",
        (
            "kafka-0",
            "10.8.0",
        ),
    ),
    ("getaddrinfo EAI_AGAIN postgres", ("EAI_AGAIN postgres",)),
    ("connect ECONNREFUSED /tmp/.s.PGSQL.5432", ("/tmp",)),
    ("connect ECONNREFUSED ::1:5432", ("::1",)),
    ("connect EHOSTUNREACH fd00:10:244::5:8080", ("fd00",)),
    ("connect ETIMEDOUT fe80::1ff:fe23:4567:890a%eth0", ("fe80",)),
    ("::ffff:10.0.0.5 refused", ("10.0.0.5",)),
    (
        "request to http://localhost:3000/api failed, reason: connect ECONNREFUSED 127.0.0.1:3000",
        (
            "localhost:3000",
            "127.0",
        ),
    ),
    ("http://localhost/api failed", ("localhost",)),
    ("http://[::1]:8080/x", ("::1",)),
    ("http://0.0.0.0:8000/ is taken", ("0.0.0.0",)),
    ("failed to reach http://169.254.169.254/latest/meta-data/iam/security-credentials/app-role", ("169.254",)),
    ("ws://gateway:9000/x closed", ("gateway",)),
    ("grpc://auth.default.svc:50051 unavailable", ("auth.default",)),
    (
        "amqp://guest:guest@rabbit:5672/%2f ACCESS_REFUSED",
        (
            "guest:guest",
            "rabbit",
        ),
    ),
    (
        "jdbc:postgresql://db-main:5432/crm?user=crm&password=hunter2",
        (
            "db-main",
            "hunter2",
        ),
    ),
    ("jdbc:sqlserver://db1;databaseName=crm;user=sa;password=S3cret!", ("S3cret",)),
    (
        "Driver={ODBC Driver 18};Server=tcp:db1,1433;Database=crm;Uid=sa;Pwd={S3;cret};",
        (
            "S3;cret",
            "cret}",
        ),
    ),
    (
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==;EndpointSuffix=core.windows.net",
        ("Zm9vYmFy",),
    ),
    (
        "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=abcDEF123456ghi=",
        ("abcDEF",),
    ),
    (
        "ldap://svc:pa55@dc01.corp:389/dc=acme",
        (
            "pa55",
            "dc01",
        ),
    ),
    ("smb://fileserver/share/x", ("fileserver",)),
    (
        "sqlite:////srv/crm/crm.db",
        (
            "/srv",
            "crm.db",
        ),
    ),
    (
        "An error occurred (InvalidAccessKeyId) when calling the ListObjects operation: The AWS Access Key Id you provided does not exist in our records: AKIAIOSFODNN7EXAMPLE",
        ("AKIA",),
    ),
    (
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        (
            "wJalr",
            "K7MDENG",
        ),
    ),
    ("SignatureDoesNotMatch: ... x-amz-security-token:FwoGZXIvYXdzEJr//////////wEaDNc", ("FwoGZX",)),
    (
        "Incorrect API key provided: sk-proj-AbC12********************xyZ9. You can find your API key at https://platform.openai.com/account/api-keys.",
        ("AbC12",),
    ),
    ("Incorrect API key provided: sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL.", ("sk-abc",)),
    ("authentication_error: invalid x-api-key sk-ant-api03-R2D2_c3po-xxxxyyyyzzzz1111-AA", ("R2D2",)),
    ("Bad credentials for ghp_16C7e42F292c6912E7710c838347Ae178B4a", ("ghp_16",)),
    ("github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789 expired", ("11ABC",)),
    ("ghs_16C7e42F292c6912E7710c838347Ae178B4a", ("ghs_",)),
    ("invalid_auth xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx", ("xoxb",)),
    ("xapp-1-A0123-4567-abcdef0123456789", ("xapp-1-A",)),
    ("https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX returned 404", ("XXXXXXXX",)),
    ("https://discord.com/api/webhooks/123456789012345678/AbCdEf_GhIjKlMnOpQrStUvWxYz0123456789 404", ("AbCdEf",)),
    ("https://api.telegram.org/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/sendMessage 401", ("AAHdq",)),
    ("No such customer: 'cus_1'; Expired API Key provided: sk_live_************************4242", ("4242",)),
    ("Invalid API Key provided: sk_test_51Habc************************wxyz", ("51Habc",)),
    ("webhook secret whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH does not match", ("whsec_5W",)),
    ("API key not valid: AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", ("AIza",)),
    ("access token ya29.a0AfH6SMBx-abcdefghijk_lmno expired", ("ya29",)),
    ("1//0gabcdefghijklmnopqrstuvwxyz-ABCDEF refresh token is invalid", ("0gabc",)),
    ("GOCSPX-abcdefghijklmnopqrstuvwx12 client secret wrong", ("GOCSPX-a",)),
    ("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 rejected", ("ngeVf",)),
    ("AccountSid AC0123456789abcdef0123456789abcdef SK0123456789abcdef0123456789abcdef", ("SK0123",)),
    ("key-3ax6xnjp29jd6fds4gc373sgvjxteol0 forbidden", ("3ax6",)),
    ("dop_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", ("dop_v1_0",)),
    ("hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567 is invalid", ("hf_Ab",)),
    ("glpat-ABCDEFGHIJKLMNOPQRST", ("glpat-A",)),
    ("npm_abcdefghijklmnopqrstuvwxyz0123456789", ("npm_a",)),
    ("pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDAtMDAwMC0w", ("pypi-Ag",)),
    ("shpat_0123456789abcdef0123456789abcdef", ("shpat_0",)),
    ("lin_api_abcdefghijklmnopqrstuvwxyz0123456789ABCD", ("lin_api_a",)),
    ("secret_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ is not valid", ("secret_abc",)),
    ("ntn_123456789012abcdefghijklmnopqrstuvwxyz", ("ntn_1",)),
    ("hvs.CAESIJabcdefghijklmnopqrstuvwx permission denied", ("CAESIJ",)),
    (
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        ("eyJ",),
    ),
    (
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n-----END OPENSSH PRIVATE KEY-----",
        ("b3Blbn",),
    ),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----", ("lQOYBF",)),
    ("-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBg\\n-----END PRIVATE KEY-----\\n", ("MIIEvQ",)),
    ("AGE-SECRET-KEY-1QQPQZYD2ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ", ("1QQPQ",)),
    ("Authorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l", ("YWxh",)),
    ("{'Authorization': 'Bearer abcdefghijklmnop'}", ("abcdefghijklmnop",)),
    ("headers={'authorization': 'Token abcdef'}", ("abcdef'",)),
    ("Authorization: Bearer abcdefghijklmnopqrst", ("abcdefghijklmnopqrst",)),
    (
        "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=fe5f80f77d5fa3be",
        (
            "AKIA",
            "fe5f80",
        ),
    ),
    ("Set-Cookie: sessionid=38afes7a8; HttpOnly; Path=/", ("38afes",)),
    ("Cookie: a=b; sid=s%3Aabcdef.ghijkl", ("abcdef",)),
    ('Cookie: theme="dark"; sid="abc\\073def"; x=1', ("abc", "def")),
    ("X-Api-Key: 5f4dcc3b5aa765d61d8327deb882cf99", ("5f4dcc",)),
    ("x-auth-token=5f4dcc3b", ("5f4dcc",)),
    ("curl -u admin:hunter2 https://acme.example/x failed", ("hunter2",)),
    ("Command '['psql', '--password=hunter2']' returned non-zero exit status 2.", ("hunter2",)),
    ("Command 'pg_dump --password hunter2 crm' returned", ("hunter2",)),
    ("git clone https://ann:tok3n@git.acme.example/x.git failed", ("tok3n",)),
    ("fatal: Authentication failed for 'https://oauth2:glpat-x@gitlab.example/x.git/'", ("glpat-x",)),
    ("DATABASE_URL=postgres://u:p@h/db is malformed", ("u:p",)),
    ("SECRET_KEY='django-insecure-abc' is too short", ("django-insecure",)),
    (
        "environ({'PATH': '/usr/bin', 'HOME': '/root', 'STRIPE_KEY': 'abc-plain', 'DB_PASS': 'plain'})",
        (
            "/usr/bin",
            "/root",
            "plain'",
        ),
    ),
    ("DB_PASS=letmein", ("letmein",)),
    ("PGPASSWORD=letmein psql failed", ("letmein",)),
    ("OPENAI_KEY=plainvalue123", ("plainvalue",)),
    ("AUTH=abcdef", ("abcdef",)),
    (
        "HOME=/root USER=svc HOSTNAME=app-7f9c-x2",
        (
            "/root",
            "app-7f9c",
            "svc",
        ),
    ),
    (
        "PATH=/usr/local/bin:/usr/bin:/opt/acme/bin",
        (
            "/usr",
            "/opt",
        ),
    ),
    ("HOSTNAME=ip-10-0-3-7", ("10-0-3-7",)),
    ("ip-10-0-3-7.eu-west-1.compute.internal", ("10-0-3-7",)),
    ('File "<stdin>", line 1, in <module>', ("<stdin>",)),
    ('File "/srv/app/x.py", line 12', ("/srv",)),
    ('  File "app\\\\x.py", line 12, in f', ("x.py",)),
    ("at Object.<anonymous> (/srv/app/index.js:10:5)", ("/srv",)),
    ("    at Module._compile (node:internal/modules/cjs/loader:1358:14)", ("Module._compile",)),
    ("    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)", ("processTicks",)),
    ("    at async Promise.all (index 0)", ("Promise.all (index",)),
    ("    at eval (eval at <anonymous> (/srv/a.js:1:1), <anonymous>:1:1)", ("/srv",)),
    ("handler@https://app.internal/main.js:10:20", ("app.internal",)),
    ("    at com.acme.crm.Db.query(Db.java:42)", ("com.acme",)),
    ("Caused by: java.sql.SQLException: x\n\tat com.acme.Db.q(Unknown Source)", ("com.acme.Db",)),
    (
        "   at Acme.Crm.Db.Query(String sql) in C:\\src\\Crm\\Db.cs:line 42",
        (
            "Acme.Crm",
            "src",
        ),
    ),
    (
        "panic: boom\n\ngoroutine 17 [running]:\nmain.(*Server).handle(0xc000123456, {0x1, 0x2})\n\t/go/src/acme/main.go:42 +0x1d5\ncreated by main.main in goroutine 1\n\t/go/src/acme/main.go:20 +0x3a",
        (
            "/go/src",
            "main.go",
            "Server",
            "created by main.main",
        ),
    ),
    ("thread 'main' panicked at src/main.rs:4:5:\nboom\nnote: run with `RUST_BACKTRACE=1`", ("src/main.rs",)),
    (
        "stack backtrace:\n   0: rust_begin_unwind\n             at /rustc/abc/library/std/src/panicking.rs:645:5\n   1: core::panicking::panic_fmt",
        (
            "/rustc",
            "rust_begin_unwind",
        ),
    ),
    (
        "Fatal error: Uncaught Exception: x in /var/www/html/index.php:3\nStack trace:\n#0 /var/www/html/a.php(12): f()\n#1 {main}\n  thrown in /var/www/html/index.php on line 3",
        ("/var/www",),
    ),
    ("app/models/user.rb:12:in `find'", ("user.rb",)),
    ("lib/acme/repo.ex:42: Acme.Repo.get/2", ("repo.ex",)),
    ("(acme 0.1.0) lib/acme/repo.ex:42: Acme.Repo.get/2", ("repo.ex",)),
    ("ModuleNotFoundError: No module named 'acme_internal.billing'", ("acme_internal",)),
    ("No module named 'acme_internal'", ("acme_internal",)),
    (
        "ImportError: cannot import name 'Secret' from 'acme.core.secrets' (/srv/acme/core/secrets.py)",
        (
            "acme.core",
            "/srv",
        ),
    ),
    (
        "Cannot find module '@acme/internal-billing'\nRequire stack:\n- /srv/app/index.js",
        (
            "@acme",
            "/srv",
        ),
    ),
    (
        "Cannot find package 'acme-billing' imported from /srv/app/index.mjs",
        (
            "acme-billing",
            "/srv",
        ),
    ),
    ("module 'acme.billing' has no attribute 'charge'", ("acme.billing",)),
    (
        "partially initialized module 'acme.db' has no attribute 'x' (most likely due to a circular import)",
        ("acme.db",),
    ),
    (
        "<acme.db.Session object at 0x7f3a5c0b2d90> is closed",
        (
            "0x7f3a",
            "acme.db",
        ),
    ),
    ("<function charge at 0x7f3a5c0b2d90> failed", ("0x7f3a",)),
    ("ClassNotFoundException: com.acme.internal.Billing", ("com.acme",)),
    ('cannot find package "github.com/acme/internal/billing" in any of:\n\t/usr/local/go/src/x', ("/usr",)),
    (
        '  + Exception Group Traceback (most recent call last):\n  |   File "/srv/a.py", line 3, in f\n  |     raise eg\n  | ExceptionGroup: two (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File "/srv/b.py", line 9, in g\n    |     query(secret_table)\n    | ValueError: one\n    +------------------------------------',
        (
            "/srv",
            "secret_table",
            "raise eg",
        ),
    ),
    (
        'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in f\n    return call(\n           ^^^^^\nValueError: no',
        (
            "/srv",
            "return call",
        ),
    ),
    ('Traceback (most recent call last):\\n  File \\"/srv/a.py\\", line 3, in f\\n    g()\\nKeyError', ("/srv",)),
    (
        "/Users/ann/Library/Application Support/crm/x.db missing",
        (
            "ann",
            " Support/crm",
        ),
    ),
    ("/Volumes/Data/crm/x", ("crm",)),
    ("/private/var/folders/zz/abc/T/tmp1", ("folders",)),
    ("/data/crm/x", ("/data",)),
    ("/go/src/app", ("/go/src",)),
    ("open /etc/passwd: permission denied", ("passwd",)),
    ("open '/proc/self/environ'", ("environ",)),
    ("..\\..\\secrets\\x.txt", ("secrets",)),
    ("../../etc/passwd", ("etc/passwd",)),
    ("./config/secrets.yml not found", ("secrets.yml",)),
    ("src\\crm\\api.py:12", ("api.py",)),
    ("\\\\fs01\\share\\x.doc", ("fs01",)),
    ("\\\\?\\C:\\x\\y.txt", ("y.txt",)),
    ("c:\\windows\\system32\\x.dll", ("system32",)),
    ("file:///C:/Users/ann/x.txt", ("ann",)),
    ("vscode-file://vscode-app/c:/Users/ann/x", ("ann",)),
    (
        "%2Fhome%2Fann%2Fx.py missing",
        (
            "home%2Fann",
            "ann",
        ),
    ),
    ("file%3A%2F%2F%2Fsrv%2Fx", ("srv%2Fx",)),
    ("/workspace/acme/x.py", ("acme",)),
    ("/mnt/efs/share/x", ("efs",)),
    ("sk-\u200bproj-aaaabbbbccccdddd1111 wrong", ("aaaabbbb",)),
    ("AKIA\u200dIOSFODNN7EXAMPLE", ("IOSFODNN7",)),
    ("pass\u200bword=hunter2", ("hunter2",)),
    ("/ho\u200bme/ann/x.py", ("ann",)),
    ("PASSWORD=Hunter2", ("Hunter2",)),
    ("PassWord : hunter22", ("hunter22",)),
    ("password\n=\nhunter2", ("hunter2",)),
    ("password%3Dhunter2", ("hunter2",)),
    ("Authorization:\n Bearer abcdef0123456789", ("abcdef012",)),
    ("postgresql://crm:hun\nter2@db/crm", ("ter2",)),
    ("http://user:pa%73s@h.example/", ("pa%73s",)),
    ("\x1b[31mpassword=\x1b[0mhunter2", ("hunter2",)),
    ("token=\xadabc123", ("abc123",)),
    ("<login><user>ann</user><password>letmein</password></login> was refused", ("letmein",)),
    ("<wsse:Password Type='PasswordText'>\n  let me in\n</wsse:Password>", ("let me in", "in\n")),
    ("&lt;clientSecret&gt;letmein&lt;/clientSecret&gt;", ("letmein",)),
    ("<apiKey><![CDATA[let<me>in]]></apiKey>", ("let<me", "in]]")),
    ("bad form {b'user': b'ann', b'password': b'letmein'}", ("letmein",)),
    ("connect(user=b'ann', password=b'letmein') failed", ("letmein",)),
    ("headers [(b'host', b'a.example'), (b'x-api-key', b'letmein')]", ("letmein",)),
    ("Password：hunter2x", ("hunter2x",)),
    ("トークン token＝letmein は無効です", ("letmein",)),
    ("Client(url='https://a.example', token=Token(value='letmein')) failed", ("letmein",)),
    ("Client(password=Secret('letmein')) failed", ("letmein",)),
    ('{"password": "let\\"me in", "user": "ann"}', ("me in",)),
    ("{'password': 'let\\'me\" in'}", ("me", " in")),
    ('{"body": "{\\"password\\": \\"letmein\\"}"}', ("letmein",)),
    ('{"a": "{\\"b\\": \\"{\\\\\\"api_key\\\\\\": \\\\\\"let, me in\\\\\\"}\\"}"}', ("let, ", "me in")),
    ('{"body": "{\\"password\\": \\"let\\\\\\"me in\\"}"}', ("me in",)),
    ('{"env": "{\\"STRIPE_KEY\\": \\"letmein\\"}"}', ("letmein",)),
    ('{"headers": "{\\"Cookie\\": \\"sid=letmein\\"}"}', ("letmein",)),
    ("mysql -uroot -pletmein crm: ERROR 1045", ("letmein",)),
    ("mysqldump --host=db1 -u crm -p'let me in' crm > x", ("let me", "me in")),
    ("Command '['mysqladmin', '-u', 'root', '-pletmein', 'ping']' returned non-zero exit status 1.", ("letmein",)),
    ('["mariadb-dump","-uroot","-pletmein","crm"] failed', ("letmein",)),
    ("dp.pt.a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5abc has no access", ("a1B2c3D4",)),
    ("dp.st.prd_eu.a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5 has expired", ("a1B2c3D4",)),
]

HONEST = [
    "usage: login <user> <password> [options]",
    "<token> ::= <word> | <token> <word>",
    "write <password>…</password> or leave it out",
    "<label>Password</label> is not closed",
    "<password></password> is empty",
    "<max_tokens>4096</max_tokens> is more than the limit",
    "b'password' is required",
    "unexpected key b'token' in b'line 2'",
    "Password：至少需要12个字符",
    "token：请输入6位数字",
    "パスワード：8文字以上で入力してください",
    "mysql client option -p needs a value",
    "mysql -u root -p crm < dump.sql failed",
    "mysql -P3306 -h db.example.com did not answer",
    "docker run --name mysql -p3306:3306 mysql:8 failed",
    "ssh mysql -p2222 timed out",
    "cannot copy mysql data with cp -prf",
    "postgres does not know -psql",
    "dp.pt is no domain",
    "dp.st.prd.users is not a column",
    "Authorization(scheme='bearer') is not supported",
    "Unexpected token => at line 1",
    "Unexpected token = at line 2",
    "Unexpected token == at line 1",
    "User 42 not found",
    "Customer cus_00017 has no open invoices",
    "Invoice INV-2024-0042 is already paid",
    "No order with id 7f3a-22 exists",
    "status must be one of: open, closed, archived",
    "'limit' must be between 1 and 100 (got 250)",
    "limit: Input should be less than or equal to 100",
    "email: value is not a valid email address: An email address must have an @-sign.",
    "name: String should have at least 3 characters",
    "start_date must be before end_date",
    "due_date 2024-02-30 is not a date",
    "2024-01-31T10:20:30+01:00 lies in the past",
    "Time 25:61 is invalid; use HH:MM",
    "Room 12:30-13:00 is taken",
    "Ratio 16:9 is not supported, use 4:3",
    "Price must be positive: -3.50",
    "EUR 1,234.56 exceeds the budget of EUR 1,000.00",
    "Currency 'XYZ' is unknown",
    "Amount 10.00.1 is not a number",
    "3/4 of the items failed",
    "The and/or filter needs two operands",
    "Rate is 12 req/s, the limit is 10 req/s",
    "Too many requests, retry in 30 s",
    "Try again at 10:15",
    "Quota exceeded: 1000/1000 calls used",
    "The account is locked; ask an administrator",
    "You do not have permission to delete project 'apollo'",
    "Only owners may invite members to workspace 12",
    "Workspace not found",
    "The workspace /acme is archived",
    "Home address is missing",
    "Repository octo/hello-world does not exist",
    "Branch main is protected",
    "Commit 3f2504e0 was not found",
    "Commit 3f2504e04f8911d39a0c0305e82c3301c0ffee00 is not on branch main",
    "Pull request #17 has conflicts in README.md",
    "File README.md is too large (1.2 MB)",
    "Tag v1.2.3 exists already",
    "Version 10.2.1 is older than 10.2.2",
    "Build 10.0.19041.1110 is not supported",
    "Release 2024.10.1 cannot be deleted",
    "Python 3.11.4 is required",
    "Node 18.17.0 or newer is required",
    "semver ^1.2.3 does not match 2.0.0",
    "UUID 123e4567-e89b-12d3-a456-426614174000 is unknown",
    "ISBN 978-3-16-148410-0 is not in stock",
    "Phone +49 30 1234567 is not valid",
    "IBAN DE89 3704 0044 0532 0130 00 is invalid",
    "Card ending in 4242 was declined",
    "Payment pi_3MtwBw was declined: insufficient_funds",
    "VAT id DE123456789 could not be checked",
    "SKU A-100/B is out of stock",
    "Item #3 of 12 failed",
    "Row 14, column 3: expected a number",
    "line 3, column 14: unexpected ','",
    "Unexpected token } in JSON at position 42",
    "Unexpected end of JSON input",
    "Expecting ',' delimiter: line 1 column 5 (char 4)",
    "JSON is nested too deeply",
    "Query must contain at least one term",
    "SELECT is the only statement allowed",
    'column "emial" does not exist',
    'relation "user" does not exist',
    'duplicate key value violates unique constraint "users_email_key"',
    "Key (email)=(ann@example.com) already exists.",
    'null value in column "name" violates not-null constraint',
    "division by zero",
    "list index out of range",
    "string index out of range",
    "could not convert string to float: 'abc'",
    "invalid literal for int() with base 10: 'x'",
    "unsupported operand types for +: 'int' and 'str'",
    "Object of type Decimal is not JSON serializable",
    "'NoneType' object is not subscriptable",
    "Cannot read properties of undefined (reading 'id')",
    "x is not a function",
    "Maximum depth exceeded",
    "KeyError: 'price'",
    "KeyError: 'AWS_SECRET_ACCESS_KEY'",
    "ValueError: 3 is not a valid Colour",
    "TypeError: unhashable type: 'list'",
    "TimeoutError",
    "The request timed out after 30 s",
    "The server did not answer within 30000ms",
    "Connection to the CRM was lost, try again",
    "Cannot connect to Salesforce right now",
    "Failed to connect to Slack",
    "Slack says: channel_not_found",
    "Slack API error: not_in_channel (C024BE91L)",
    "GitHub says: Not Found",
    "GitHub: Validation Failed: title is missing",
    "Notion: page 59833787-2cf9-4fdf-8782-e53db20768a5 is not shared with the integration",
    "Jira: Issue CRM-123 does not exist or you do not have permission to see it",
    "Stripe: No such customer: 'cus_NffrFeUfNV2Hib'",
    "Stripe: Your card has insufficient funds.",
    "Google Calendar: event not found",
    "Zendesk ticket 4711 is closed",
    "HTTP 404 Not Found",
    "404: Not Found",
    "HTTP/1.1 503 Service Unavailable",
    "Client error '404 Not Found' for url 'https://api.example.com/v1/users/42'",
    "Server error '502 Bad Gateway' for url 'https://api.github.com/repos/octo/hello/issues?page=2'",
    "HTTPSConnectionPool(host='api.example.com', port=443): Read timed out. (read timeout=10)",
    "GET /users/42 answered 404 Not Found",
    "GET /apps/42 answered 404",
    "POST /data/import failed with 422",
    "DELETE /work/items/9 is not allowed",
    "PATCH /api/v2/media/17: 409 Conflict",
    "see https://example.com/docs/errors?code=404#top",
    "For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/404",
    "more at https://docs.example.com/guide/errors.html",
    "Visit https://example.com:8443/status",
    "callback https://example.com/cb?state=ok&page=2 was refused",
    "www.example.com is unreachable",
    "example.com/a/b is no valid link",
    "mailto:ann@example.com is not a web address",
    "ann@example.com bounced",
    "Mail to ann.b+crm@sub.example.co.uk was refused",
    "@ann is not a member of #general",
    "#general is archived",
    "Hashtag #1 is invalid",
    "content type application/json is not text/plain",
    "image/svg+xml is not allowed",
    "Accept: application/vnd.api+json is required",
    "charset utf-8 expected",
    "encoding 'latin-1' is unknown",
    "locale en_US.UTF-8 is unknown",
    "timezone Europe/Berlin is needed; got Mars/Base",
    "America/Argentina/Buenos_Aires has no data",
    "Unit km/h cannot be converted to kg",
    "A/B test 7 has ended",
    "TCP/IP is fine; I/O too",
    "n/a is no number",
    "1/0 is undefined",
    "true/false expected",
    "5 GB/month is the limit",
    "x:y:z is not a triple",
    "key:value pairs are needed",
    "foo::bar is not a name",
    "std::vector is not JSON",
    "C: drive full",
    "a\\b is not a path here",
    "Pattern \\d+ matched nothing",
    "regex [a-z]+ is invalid near ']'",
    "use {name} or {{name}} in templates",
    "${total} is not defined in the template",
    "%s is not replaced",
    "50% off is not possible",
    "100 %",
    "~ 20 minutes left",
    "* is not allowed here",
    "<b> is no allowed tag",
    "<name> must be given",
    "List<String> is expected",
    "if a < b and c > d then fail",
    "=== 3 problems ===",
    "- first: missing",
    "1. name is missing",
    "2. age must be a number",
    "1: one",
    "2: two",
    "Errors:",
    "  - name: required",
    "  - age: must be > 0",
    "one",
    "\ttwo",
    "   three",
    "password: must have at least 12 characters",
    "password must contain a digit",
    "Password is too short",
    "The password was wrong",
    "password reset mail was sent",
    "passwords do not match",
    "Invalid username or password",
    "Field 'password' is required",
    "{'password': ['This field is required.']}",
    "token: Field required",
    "Invalid token",
    "Token has expired",
    "token expired at noon",
    "Unexpected token 'else'",
    "max_tokens=4096 is more than the limit of 2048",
    "prompt has 5000 tokens: at most 4096 are allowed",
    "tokens: 4096 is the most",
    "secret: Input should be a valid string",
    "The secret santa list is empty",
    "Secret 'db' is not set",
    "api key is missing",
    "API key required",
    "Provide an API key with --api-key",
    "option --password is required",
    "option --token needs a value",
    "use --user NAME",
    "Authorization header is missing",
    "Authorization: header required",
    "Authorization: Bearer token expected",
    "Bearer authentication is required",
    "basic authentication-required",
    "Basic plan allows 3 projects",
    "credentials are missing",
    "The credential expired",
    "cookie consent is needed",
    "Cookie: header is too large",
    "cookies are disabled",
    "access key is not active",
    "public key is malformed",
    "private key is encrypted",
    "primary key violated",
    "foreign_key=orders.user_id is missing",
    "sort_key=name is not a column",
    "key=value expected",
    "key: name is unknown",
    "signature does not match",
    "signature=missing",
    "signature: sha256 expected",
    "session expired",
    "session 12 is over",
    "MAX_ITEMS=10 is the limit",
    "LOG_LEVEL=debug is not known",
    "mode=fast, size=3",
    "path is required",
    "path must begin with a slash",
    "path 'a.b[0].c' does not exist in the document",
    "$.items[0].name is missing",
    "#/properties/name/type is wrong",
    "#/definitions/User was not found",
    "ui://widgets/chart and config://app are resources",
    "resource://tickets/42 is gone",
    "s3://bucket/key is not readable",
    "urn:isbn:0451450523 is unknown",
    "data:text/plain;base64 is not allowed",
    "8.8.8.8:53 did not answer",
    "172.15.0.1 and 172.32.0.1 are public",
    "192.0.2.10 is blocked",
    "2001:db8::1 did not answer",
    "MAC 00:1b:44:11:3a:b7 is unknown",
    "CIDR /24 is too large",
    "port 5432 is not open",
    "port must be below 65536",
    "host is unreachable",
    "hostname is required",
    "host: Field required",
    "server is busy",
    "Server error, ask again later",
    "server=eu-west is not known",
    "region eu-west-1 is not enabled",
    "zone europe-west1-b has no capacity",
    "bucket names must be lower case",
    "node 3 of 5 is down",
    "Module 7 of the course is locked",
    "module is required",
    "No module for this plan",
    "Lesson 3 in module 'Basics' is locked",
    "from 'open' to 'closed' is no transition",
    "The transition from 'draft' to 'sent' is not allowed",
    "Cannot move from 'a' to 'b'",
    "environment 'staging' does not exist",
    "environment: must be one of dev, prod",
    "settings.local is missing",
    "deal.stage is read-only",
    "user.name must not be empty",
    "orders.items.price must be a number",
    "crm.users is empty",
    "Tool 'users:list' was not found; did you mean 'users:get'?",
    "Tool 'crm_users_list' was not found",
    "Did you mean 'orders.search'?",
    "meet at noon (room 12)",
    "at most 10 items (found 12)",
    "Look at row 3 (a.b:1)",
    "Ann's order isn't ready",
    '"quoted" text stays',
    "Grüße: Straße ist ungültig",
    "日本語のエラー: 見つかりません",
    "Пользователь не найден",
    "لم يتم العثور على المستخدم",
    "👩\u200d👩\u200d👧 family emoji stays",
    "naïve café ☕️ is closed",
    "[path] is not a key",
    "Step 3: call codecall:search",
    "connect at 10:30",
    "connected to 3 accounts",
    "reading from 3 to 5",
    "writing to cell B7 failed",
    "lookup failed",
    "proxy vote is closed",
    "refused: the deal is closed",
    "cost is $3.50/unit; 50% off",
    "GDPR export for user 7 is running: 40%",
    "Sheet 'Q1' range A1:B10 is empty",
    "A1:B1000 exceeds the sheet",
    "Bible verse John 3:16 not found",
    "Score was 3:2",
    "aspect=16:9 only",
]


def test_what_libraries_say_loses_what_must_not_leave() -> None:
    cleaned = {text: clean_text(text, ON) for text, _ in LEAKS}
    assert [cleaned[text] for text, secrets in LEAKS if any(secret in cleaned[text] for secret in secrets)] == []
    assert [text for text in cleaned.values() if clean_text(text, ON) != text] == []
    assert [text for text in cleaned if clean_text(text, OFF) != text] == []


def test_the_same_as_details_and_with_windows_line_ends() -> None:
    told: list[str] = []
    for text, secrets in LEAKS:
        detail = json.dumps(clean_value({"errors": [{"cause": text}], text: 1}, ON), ensure_ascii=False)
        crlf = clean_text("first line\r\n" + text.replace("\n", "\r\n") + "\r\nlast line", ON)
        assert crlf.startswith("first line")
        told += [cleaned for cleaned in (detail, crlf) if any(secret in cleaned for secret in secrets)]
    assert told == []


def test_honest_messages_stay_as_they_are() -> None:
    cleaned = {text: clean_text(text, ON) for text in HONEST}
    assert {text: changed for text, changed in cleaned.items() if changed != text} == {}


def test_there_are_enough_of_both() -> None:
    assert len(HONEST) >= 200
    assert len(LEAKS) >= 150


def test_honest_messages_stay_together_too() -> None:
    """No pattern reaches from one message over a line end into the next and takes it for something else."""
    for first, second in itertools.pairwise(HONEST):
        text = f"{first}\n{second}"
        assert clean_text(text, ON) == text


UNSEEN = ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e", "\x1b[31m", "\x00", "\U000e0041"]


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
def test_what_nobody_sees_hides_nothing(unseen: str) -> None:
    wrong: list[tuple[str, int, str]] = []
    for row in PATTERNS:
        for step in (1, 3):
            hidden = unseen.join(row.example[at : at + step] for at in range(0, len(row.example), step))
            if (cleaned := clean_text(hidden, ON)) != row.expected:
                wrong.append((row.name, step, cleaned))
    assert wrong == []


def test_what_nobody_sees_stays_where_there_is_nothing_to_hide() -> None:
    for text in ("\U0001f469\u200d\U0001f467 is closed", "a\u00adb", "\u202eabc", "tab\tand \x1b[1mbold\x1b[0m"):
        assert clean_text(text, ON) == text


def test_letter_case_hides_nothing() -> None:
    for text in (
        "PASSWORD=Hunter2",
        "PassWord: hunter22",
        "bEARER abcdef0123456789",
        "DB.PROD.INTERNAL",
        "LocalHost:80",
    ):
        assert clean_text(text, ON) != text


def test_a_value_of_the_environment_with_a_secret_name_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_SIGNING_SECRET", "kestrel-harbour-9")
    monkeypatch.setenv("STRIPE_KEY", "an apple a day keeps")
    monkeypatch.setenv("DB_TOKEN", "open")  # a word of everyday language
    monkeypatch.setenv("CRM_STAGE", "kestrel-harbour-7")  # its name says nothing
    text = "sent kestrel-harbour-9, then 'an apple a day keeps'; the deal is open, kestrel-harbour-7"
    assert clean_text(text, ON) == (f"sent {CREDENTIAL}, then '{CREDENTIAL}'; the deal is open, kestrel-harbour-7")
    assert clean_text(text, OFF) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/root/of-a/project-7f3a"),
        ("OLDPWD", "/srv/elsewhere-81"),
        ("GPG_KEY", "A035C8C19219BA821ECEA86B64E628F8D684696D"),
        ("CRM_TOKEN", "/run/secrets/crm-token-1"),
        ("CRM_SECRET", "~/secrets/crm-token-1"),
        ("CRM_PASSWORD", "C:\\secrets\\crm-token-1"),
        ("CRM_PASSWORD", "12345678"),
        ("CRM_PASSWORD", "hunter2-x1"),
        ("CRM_PASSWORD", "1111222211112222"),
    ],
)
def test_no_variable_is_secret_by_its_name_alone(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert value not in environment_secrets()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MYSQL_PWD", "kestrel-harbour-9"),
        ("SSHPASS", "kestrel-harbour-9"),
        ("CRM_API_KEY", "/9j4AAQSkZJRgABAQ+EASABIAAD"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("CRM_TOKEN", "3f9a1c77b2e4"),
    ],
)
def test_values_that_nobody_guesses_are_secret(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert value in environment_secrets()


@pytest.mark.parametrize("script", ["throw new Error('{}')", "throw {{name: '{}'}}", "return {}", "return tools['{}'"])
async def test_a_script_is_not_told_whether_its_guess_is_right(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    guesses = ("kestrel_harbour_9", "kestrel_harbour_8")
    monkeypatch.setenv("CRM_SIGNING_SECRET", guesses[0])
    async with Enclave("secure", pool={"min_workers": 0, "max_workers": 1}) as enclave:
        told = [(await enclave.execute(script.format(guess))).envelope()["error"] for guess in guesses]
    assert CREDENTIAL not in str(told)
    assert str(told[0]).replace(guesses[0], guesses[1]) == str(told[1])


def test_what_marks_say() -> None:
    assert clean_text("No module named 'crm_internal'", ON) == f"No module named {MODULE}"
    assert clean_text("HOSTNAME=app-7f9c-x2", ON) in {f"HOSTNAME={ENVIRONMENT}", "HOSTNAME=[internal address]"}
    assert clean_text("psycopg.OperationalError: it failed", ON) == "OperationalError: it failed"


def test_a_huge_text_of_leaks_is_cleaned_and_cut() -> None:
    text = " ".join(text for text, _ in LEAKS) * 20
    cleaned = clean_text(text, ON)
    assert "…[truncated " in cleaned
    assert not [secret for _, secrets in LEAKS for secret in secrets if len(secret) > 10 and secret in cleaned]
