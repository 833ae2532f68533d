-- A database as version 2 made it. It never changes: such files exist.
PRAGMA application_id = 1802529652;
CREATE TABLE documents(
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            content_hash TEXT NOT NULL,
            title TEXT NOT NULL,
            metadata TEXT NOT NULL,
            issues TEXT NOT NULL,
            origin TEXT NOT NULL,
            uri TEXT NOT NULL,
            stored_at TEXT NOT NULL,
            superseded_by INTEGER REFERENCES documents(n) ON DELETE SET NULL
        , size INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX documents_superseded ON documents(superseded_by) WHERE superseded_by IS NOT NULL;
CREATE TABLE terms(n INTEGER PRIMARY KEY AUTOINCREMENT, term TEXT NOT NULL UNIQUE) STRICT;
CREATE VIRTUAL TABLE found USING fts5(words, content='', columnsize=0, detail=none, tokenize='ascii');
CREATE VIRTUAL TABLE found_words USING fts5vocab(found, row);
CREATE TABLE state(
            one INTEGER PRIMARY KEY CHECK (one = 1),
            analyzer TEXT NOT NULL,
            documents INTEGER NOT NULL,
            passages INTEGER NOT NULL,
            length INTEGER NOT NULL,
            revision TEXT NOT NULL
        , reference INTEGER NOT NULL DEFAULT 128, removals INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE keys(key TEXT PRIMARY KEY, documents INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE contents(
            n INTEGER PRIMARY KEY REFERENCES documents(n) ON DELETE CASCADE,
            content BLOB NOT NULL
        ) STRICT;
CREATE TABLE passages(
            block INTEGER PRIMARY KEY AUTOINCREMENT,
            document INTEGER NOT NULL REFERENCES documents(n) ON DELETE CASCADE,
            ordinal INTEGER NOT NULL,
            layout BLOB NOT NULL,
            headings TEXT NOT NULL,
            term_ids BLOB NOT NULL,
            term_counts BLOB NOT NULL
        ) STRICT;
CREATE INDEX passages_document ON passages(document);
CREATE VIRTUAL TABLE found_postings USING fts5vocab(found, instance);
INSERT INTO documents(n, id, content_hash, title, metadata, issues, origin, uri, stored_at, superseded_by, size) VALUES (1, 'guides/pump.md', '39f8e1e45eb53004fa22bf39a12abceb79f7b9338ed14e9400b3279c7cfb3b7e', 'Pump', '{"kind": "guide"}', '[]', 'text', 'import:docs/guides/pump.md', '2025-01-02T03:04:05+00:00', NULL, 94);
INSERT INTO documents(n, id, content_hash, title, metadata, issues, origin, uri, stored_at, superseded_by, size) VALUES (2, 'valve.md', '35e1d67a8db880061905f26c8a141e88eb22dcf7fa3c06f20d8758ddf7498e7c', 'Ventil größe', '{}', '[{"code": "frontmatter-missing", "severity": "info", "path": "valve.md", "line": 1, "message": "The document has no frontmatter", "mend": "Begin it with `---`, `title: ...`, `---`, if you like."}]', 'text', 'import:docs/valve.md', '2025-01-02T03:04:05+00:00', NULL, 37);
INSERT INTO documents(n, id, content_hash, title, metadata, issues, origin, uri, stored_at, superseded_by, size) VALUES (3, 'old.md', 'bca1189e4a9bfb63455ea25758306a81376e361fd79d71cc4531227268e198cb', 'Old pump', '{}', '[{"code": "frontmatter-missing", "severity": "info", "path": "old.md", "line": 1, "message": "The document has no frontmatter", "mend": "Begin it with `---`, `title: ...`, `---`, if you like."}]', 'text', 'import:docs/old.md', '2025-01-02T03:04:05+00:00', 1, 35);
INSERT INTO contents(n, content) VALUES (1, x'2d2d2d0a6b696e643a2067756964650a2d2d2d0a232050756d700a0a54686520696d70656c6c6572207475726e7320617420313435302072706d2e0a0a232320436172650a0a477265617365206974207477696365206120796561722e0a');
INSERT INTO contents(n, content) VALUES (2, x'232056656e74696c206772c3b6c39f650a0ae6b0b4e6b8a9e3818ce9ab98e38184e380820a');
INSERT INTO contents(n, content) VALUES (3, x'23204f6c642070756d700a0a496d70656c6c6572206f66207965737465726461792e0a');
INSERT INTO terms(n, term) VALUES (1, '1450');
INSERT INTO terms(n, term) VALUES (2, 'a');
INSERT INTO terms(n, term) VALUES (3, 'at');
INSERT INTO terms(n, term) VALUES (4, 'care');
INSERT INTO terms(n, term) VALUES (5, 'greas');
INSERT INTO terms(n, term) VALUES (6, 'impel');
INSERT INTO terms(n, term) VALUES (7, 'it');
INSERT INTO terms(n, term) VALUES (8, 'pump');
INSERT INTO terms(n, term) VALUES (9, 'rpm');
INSERT INTO terms(n, term) VALUES (10, 'the');
INSERT INTO terms(n, term) VALUES (11, 'turn');
INSERT INTO terms(n, term) VALUES (12, 'twice');
INSERT INTO terms(n, term) VALUES (13, 'year');
INSERT INTO terms(n, term) VALUES (14, 'grösse');
INSERT INTO terms(n, term) VALUES (15, 'ventil');
INSERT INTO terms(n, term) VALUES (16, 'い');
INSERT INTO terms(n, term) VALUES (17, 'が');
INSERT INTO terms(n, term) VALUES (18, 'が高');
INSERT INTO terms(n, term) VALUES (19, '水');
INSERT INTO terms(n, term) VALUES (20, '水温');
INSERT INTO terms(n, term) VALUES (21, '温');
INSERT INTO terms(n, term) VALUES (22, '温が');
INSERT INTO terms(n, term) VALUES (23, '高');
INSERT INTO terms(n, term) VALUES (24, '高い');
INSERT INTO terms(n, term) VALUES (25, 'of');
INSERT INTO terms(n, term) VALUES (26, 'old');
INSERT INTO terms(n, term) VALUES (27, 'yesterday');
INSERT INTO passages(block, document, ordinal, layout, headings, term_ids, term_counts) VALUES (1, 1, 0, x'140000003b00000009000000070000003d0000005d0000000900000007000000', '[["Pump"], ["Pump", "Care"]]', x'080000000a000000060000000b000000030000000100000009000000080000000400000005000000070000000c000000020000000d000000', x'07000300030003000300030003000400050003000300030003000300');
INSERT INTO passages(block, document, ordinal, layout, headings, term_ids, term_counts) VALUES (2, 2, 0, x'00000000240000000f0000000b000000', '[["Ventil größe"]]', x'0f0000000e000000130000001500000011000000170000001000000014000000160000001200000018000000', x'07000700030003000300030003000300030003000300');
INSERT INTO state(one, analyzer, documents, passages, length, revision, reference, removals) VALUES (1, 'ANALYZER', 3, 3, 33, '006bc53a365d94f2ee30a0be', 128, 1);
INSERT INTO keys(key, documents) VALUES ('kind', 1);
INSERT INTO found(rowid, words) VALUES (8, '0000008j 000000ae 0000006e 000000be 0000003e 0000001e 0000009e');
INSERT INTO found(rowid, words) VALUES (9, '0000008h 0000004h 0000005e 0000007e 000000ce 0000002e 000000de');
INSERT INTO found(rowid, words) VALUES (16, '000000fi 000000ei 000000jd 000000ld 000000hd 000000nd 000000gd 000000kd 000000md 000000id 000000od');
PRAGMA user_version = 2;
