-- What Redshift has in every database and PostgreSQL has not. Run once in template1, by the superuser,
-- with allow_system_table_mods, because Redshift has it in pg_catalog.

-- Types. SUPER keeps compact JSON; VARBYTE, GEOMETRY and GEOGRAPHY keep hex digits, which is what Redshift prints.
CREATE TYPE super;
CREATE FUNCTION super_in(cstring) RETURNS super LANGUAGE internal IMMUTABLE STRICT AS 'json_in';
CREATE FUNCTION super_out(super) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE super (INPUT = super_in, OUTPUT = super_out, LIKE = json);
CREATE CAST (json AS super) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (super AS json) WITHOUT FUNCTION;
CREATE CAST (super AS jsonb) WITH INOUT;

-- Its length is kept as that of a bit string is, which may be longer than a VARCHAR's.
CREATE TYPE varbyte;
CREATE FUNCTION varbyte_out(varbyte) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE FUNCTION varbyte_typmod_in(cstring[]) RETURNS integer LANGUAGE internal IMMUTABLE STRICT AS 'bittypmodin';
CREATE FUNCTION varbyte_typmod_out(integer) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'bittypmodout';
CREATE FUNCTION varbyte_in(cstring) RETURNS varbyte LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE TYPE varbyte (
    INPUT = varbyte_in, OUTPUT = varbyte_out, LIKE = text,
    TYPMOD_IN = varbyte_typmod_in, TYPMOD_OUT = varbyte_typmod_out
);
CREATE TYPE geometry;
CREATE FUNCTION geometry_in(cstring) RETURNS geometry LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION geometry_out(geometry) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE geometry (INPUT = geometry_in, OUTPUT = geometry_out, LIKE = text);
CREATE TYPE geography;
CREATE FUNCTION geography_in(cstring) RETURNS geography LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION geography_out(geography) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE geography (INPUT = geography_in, OUTPUT = geography_out, LIKE = text);
CREATE TYPE hllsketch;
CREATE FUNCTION hllsketch_in(cstring) RETURNS hllsketch LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION hllsketch_out(hllsketch) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE hllsketch (INPUT = hllsketch_in, OUTPUT = hllsketch_out, LIKE = text);

-- "LOWER", "UPPER": they know all of Unicode; names fold in ASCII alone, as PostgreSQL's do in this database.
CREATE FUNCTION standin_lower(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT lower($1 COLLATE "und-x-icu") COLLATE "default" $$;
CREATE FUNCTION standin_upper(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT upper($1 COLLATE "und-x-icu") COLLATE "default" $$;

-- Both are compared, sorted and grouped by what they keep.
CREATE CAST (varbyte AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (geometry AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (geography AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE FUNCTION super_cmp(a super, b super) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT jsonb_cmp(a::jsonb, b::jsonb) $$;
CREATE FUNCTION super_eq(a super, b super) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT a::jsonb = b::jsonb $$;
CREATE FUNCTION super_ne(a super, b super) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT a::jsonb <> b::jsonb $$;
CREATE FUNCTION super_lt(a super, b super) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT a::jsonb < b::jsonb $$;
CREATE FUNCTION super_le(a super, b super) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT a::jsonb <= b::jsonb $$;
CREATE FUNCTION super_gt(a super, b super) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT a::jsonb > b::jsonb $$;
CREATE FUNCTION super_ge(a super, b super) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT a::jsonb >= b::jsonb $$;
CREATE OPERATOR = (LEFTARG = super, RIGHTARG = super, FUNCTION = super_eq, COMMUTATOR = =, NEGATOR = <>);
CREATE OPERATOR <> (LEFTARG = super, RIGHTARG = super, FUNCTION = super_ne, COMMUTATOR = <>, NEGATOR = =);
CREATE OPERATOR < (LEFTARG = super, RIGHTARG = super, FUNCTION = super_lt, COMMUTATOR = >);
CREATE OPERATOR <= (LEFTARG = super, RIGHTARG = super, FUNCTION = super_le, COMMUTATOR = >=);
CREATE OPERATOR > (LEFTARG = super, RIGHTARG = super, FUNCTION = super_gt, COMMUTATOR = <);
CREATE OPERATOR >= (LEFTARG = super, RIGHTARG = super, FUNCTION = super_ge, COMMUTATOR = <=);
CREATE OPERATOR CLASS super_ops DEFAULT FOR TYPE super USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 super_cmp(super, super);

-- "SUPER type", "JSON functions". A string of JSON keeps its blanks, all others go.
CREATE FUNCTION standin_compact(document text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT regexp_replace(document, E'("(?:[^"\\\\]|\\\\.)*")|\\s+', E'\\1', 'g') $$;
CREATE FUNCTION json_parse(document text) RETURNS super LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT standin_compact(document)::json::super $$;
CREATE FUNCTION json_serialize(document super) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT document::json::text::varchar $$;
CREATE FUNCTION json_typeof(document super) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT json_typeof(document::json)::varchar $$;
CREATE FUNCTION get_array_length(document super) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT CASE WHEN json_typeof(document::json) = 'array' THEN json_array_length(document::json) END $$;
CREATE FUNCTION is_valid_json(document text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM document::json;
    RETURN document IS NOT NULL;
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END $$;
CREATE FUNCTION can_json_parse(document text) RETURNS boolean LANGUAGE sql IMMUTABLE
    AS $$ SELECT is_valid_json(document) $$;
CREATE FUNCTION json_extract_path_text(document text, VARIADIC path text[]) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT document::json #>> path $$;
CREATE FUNCTION standin_path(document super, VARIADIC path text[]) RETURNS super LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT (document::json #> path)::super $$;
-- A scalar of SUPER becomes a scalar; what is none becomes NULL ("Lax and strict modes for SUPER").
CREATE FUNCTION standin_scalar(document super) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT CASE WHEN json_typeof(document::json) IN ('object', 'array') THEN NULL ELSE document::json #>> '{}' END $$;
CREATE FUNCTION standin_varchar(document super) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT standin_scalar(document)::varchar $$;
CREATE CAST (super AS varchar) WITH FUNCTION standin_varchar(super) AS ASSIGNMENT;
CREATE FUNCTION standin_text(document super) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT standin_scalar(document) $$;
CREATE CAST (super AS text) WITH FUNCTION standin_text(super) AS ASSIGNMENT;
CREATE FUNCTION standin_numeric(document super) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT standin_scalar(document)::numeric $$;
CREATE CAST (super AS numeric) WITH FUNCTION standin_numeric(super);
CREATE FUNCTION standin_bigint(document super) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT standin_scalar(document)::bigint $$;
CREATE CAST (super AS bigint) WITH FUNCTION standin_bigint(super);
CREATE FUNCTION standin_integer(document super) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT standin_scalar(document)::integer $$;
CREATE CAST (super AS integer) WITH FUNCTION standin_integer(super);
CREATE FUNCTION standin_super(document varchar) RETURNS super LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT to_json(document)::super $$;
CREATE CAST (varchar AS super) WITH FUNCTION standin_super(varchar) AS ASSIGNMENT;

-- "VARBYTE type", "Binary functions" as far as they are about hex.
CREATE FUNCTION from_hex(digits text) RETURNS varbyte LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT encode(decode(digits, 'hex'), 'hex')::varbyte $$;
CREATE FUNCTION to_hex(content varbyte) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT content::text::varchar $$;
CREATE FUNCTION from_varbyte(content varbyte, form text) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE lower(form)
        WHEN 'hex' THEN content::text
        WHEN 'base64' THEN replace(encode(decode(content::text, 'hex'), 'base64'), E'\n', '')
        ELSE convert_from(decode(content::text, 'hex'), 'UTF8') END::varchar $$;
CREATE FUNCTION to_varbyte(content text, form text) RETURNS varbyte LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT encode(CASE lower(form)
        WHEN 'hex' THEN decode(content, 'hex')
        WHEN 'base64' THEN decode(content, 'base64')
        ELSE convert_to(content, 'UTF8') END, 'hex')::varbyte $$;
CREATE CAST (text AS varbyte) WITHOUT FUNCTION;
CREATE FUNCTION standin_bytes(content varchar) RETURNS varbyte LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT encode(convert_to(content, 'UTF8'), 'hex')::text::varbyte $$;
CREATE CAST (varchar AS varbyte) WITH FUNCTION standin_bytes(varchar) AS ASSIGNMENT;
CREATE FUNCTION length(content varbyte) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT char_length(content::text) / 2 $$;
CREATE FUNCTION octet_length(content varbyte) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT char_length(content::text) / 2 $$;

-- "SHA2 function", "STRTOL function" with the base 16.
CREATE FUNCTION sha2(content varchar, bits integer) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE bits
        WHEN 224 THEN encode(sha224(convert_to(content, 'UTF8')), 'hex')
        WHEN 384 THEN encode(sha384(convert_to(content, 'UTF8')), 'hex')
        WHEN 512 THEN encode(sha512(convert_to(content, 'UTF8')), 'hex')
        ELSE encode(sha256(convert_to(content, 'UTF8')), 'hex') END::varchar $$;
CREATE FUNCTION strtol(digits varchar, base integer) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF base <> 16 THEN
        RAISE EXCEPTION 'the stand-in does not know STRTOL with the base %', base;
    END IF;
    RETURN ('x' || lpad(digits, 16, '0'))::bit(64)::bigint;
END $$;

-- "GETDATE function", "PG_LAST_COPY_COUNT", "PG_LAST_COPY_ID", "PG_LAST_QUERY_ID".
CREATE FUNCTION getdate() RETURNS timestamp LANGUAGE sql STABLE AS $$ SELECT localtimestamp(6) $$;
CREATE FUNCTION pg_last_copy_count() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT coalesce(nullif(current_setting('standin.copy_count', true), ''), '0')::bigint $$;
CREATE FUNCTION pg_last_copy_id() RETURNS integer LANGUAGE sql VOLATILE
    AS $$ SELECT coalesce(nullif(current_setting('standin.copy_id', true), ''), '-1')::integer $$;
CREATE FUNCTION pg_last_query_id() RETURNS integer LANGUAGE sql VOLATILE AS $$ SELECT pg_last_copy_id() $$;

-- What is noted of tables.
CREATE TABLE standin_tables (id oid PRIMARY KEY, notes jsonb NOT NULL);
GRANT ALL ON standin_tables TO PUBLIC;
CREATE FUNCTION standin_notes(this regclass) RETURNS jsonb LANGUAGE sql STABLE
    AS $$ SELECT coalesce((SELECT notes FROM standin_tables WHERE id = this), '{}') $$;
CREATE FUNCTION standin_note(this regclass, more jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    known jsonb := standin_notes(this);
BEGIN
    IF more ? 'like' THEN
        known := standin_notes((more ->> 'like')::regclass) - 'primary' - 'unique';
        more := more - 'like';
        more := jsonb_strip_nulls(jsonb_set(more, '{unique}', 'null'));
    END IF;
    IF more ? 'encodings' THEN
        more := jsonb_set(more, '{encodings}', coalesce(known -> 'encodings', '{}') || (more -> 'encodings'));
    END IF;
    DELETE FROM standin_tables WHERE id = this;
    INSERT INTO standin_tables VALUES (this, jsonb_strip_nulls(known || more));
END $$;
CREATE FUNCTION standin_renamed(this regclass, former text, latter text) RETURNS void LANGUAGE sql AS $$
    UPDATE standin_tables
    SET notes = replace(notes::text, to_jsonb(former)::text, to_jsonb(latter)::text)::jsonb WHERE id = this $$;

-- A late-binding view is told as it was written.
CREATE OR REPLACE VIEW pg_views AS
    SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner,
        coalesce(standin_notes(c.oid) ->> 'definition', pg_get_viewdef(c.oid)) AS definition
    FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v';

-- VARCHAR, CHAR and VARBYTE are limited in bytes, PostgreSQL counts characters: a check for each column.
CREATE FUNCTION standin_limits(this regclass) RETURNS TABLE (attnum smallint, name name, condition text)
LANGUAGE sql STABLE AS $$
    SELECT a.attnum,
        format('standin_%s_%s_%s', CASE t.typname WHEN 'bpchar' THEN 'char' ELSE t.typname END,
            a.atttypmod - CASE t.typname WHEN 'varbyte' THEN 0 ELSE 4 END, a.attnum),
        CASE t.typname
            WHEN 'varbyte' THEN
                format('char_length(%1$I::text) <= %2$s AND %1$I::text ~ ''^([0-9a-f]{2})*$''', a.attname, 2 * a.atttypmod)
            ELSE format('octet_length(%I) <= %s', a.attname, a.atttypmod - 4) END
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = this AND a.attnum > 0 AND NOT a.attisdropped
        AND a.atttypmod > CASE t.typname WHEN 'varbyte' THEN 0 ELSE 4 END
        AND t.typname IN ('varchar', 'bpchar', 'varbyte') $$;
CREATE FUNCTION standin_limit(this regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- In one statement: each ALTER TABLE comes back here.
    changes text := (
        SELECT string_agg(change, ', ') FROM (
            SELECT format('DROP CONSTRAINT %I', c.conname) FROM pg_constraint c
            WHERE c.conrelid = this AND c.conname LIKE E'standin\\_%' AND NOT EXISTS (
                SELECT FROM standin_limits(this) l WHERE l.name = c.conname AND ARRAY[l.attnum] = c.conkey)
            UNION ALL
            SELECT format('ADD CONSTRAINT %I CHECK (%s)', l.name, l.condition) FROM standin_limits(this) l
            WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = this AND c.conname = l.name)
        ) AS found (change));
BEGIN
    IF changes IS NOT NULL THEN
        EXECUTE format('ALTER TABLE %s %s', this, changes);
    END IF;
END $$;
CREATE FUNCTION standin_defined() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    command record;
    noted text := substring(current_query() FROM E'^\\s*/\\*standin (\\{.*\\})\\*/');
BEGIN
    FOR command IN
        SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' AND schema_name <> 'pg_catalog'
    LOOP
        PERFORM standin_limit(command.objid::regclass);
        IF noted IS NOT NULL AND command.command_tag LIKE 'CREATE TABLE%' THEN
            PERFORM standin_note(command.objid::regclass, noted::jsonb);
        END IF;
    END LOOP;
END $$;
CREATE EVENT TRIGGER standin_defined ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE') EXECUTE FUNCTION standin_defined();

-- ALTER TABLE APPEND wants the same columns on both sides.
CREATE FUNCTION standin_same_columns(target regclass, source regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT array_agg((attname, atttypid, atttypmod)::text ORDER BY attnum) FROM pg_attribute
            WHERE attrelid = target AND attnum > 0 AND NOT attisdropped)
        IS DISTINCT FROM (SELECT array_agg((attname, atttypid, atttypmod)::text ORDER BY attnum) FROM pg_attribute
            WHERE attrelid = source AND attnum > 0 AND NOT attisdropped) THEN
        RAISE EXCEPTION 'columns of the source and target tables of ALTER TABLE APPEND do not match';
    END IF;
    IF standin_notes(target) -> 'distkey' IS DISTINCT FROM standin_notes(source) -> 'distkey'
        OR standin_notes(target) -> 'sortkeys' IS DISTINCT FROM standin_notes(source) -> 'sortkeys' THEN
        RAISE EXCEPTION 'distribution and sort keys of the source and target tables of ALTER TABLE APPEND do not match';
    END IF;
END $$;

-- "STL_LOAD_ERRORS", "SYS_LOAD_ERROR_DETAIL", "STL_LOAD_COMMITS".
CREATE SEQUENCE standin_queries AS integer START 1000;
CREATE TABLE stl_load_errors (
    userid integer, slice integer, tbl integer, starttime timestamp, session integer, query integer, filename char(256),
    line_number bigint, colname char(127), type char(10), col_length char(10), "position" integer, raw_line char(1024),
    raw_field_value char(1024), err_code integer, err_reason char(100), is_partial integer, start_offset bigint,
    copy_job_id bigint
);
CREATE VIEW sys_load_error_detail AS
    SELECT userid AS user_id, query::bigint AS query_id, session::bigint AS session_id, 0::bigint AS transaction_id,
        current_database()::text AS database_name, tbl AS table_id, starttime AS start_time, rtrim(filename) AS file_name,
        line_number, rtrim(colname) AS column_name, rtrim(type) AS column_type, rtrim(col_length) AS column_length,
        "position", err_code AS error_code, rtrim(err_reason) AS error_message, rtrim(raw_line) AS raw_line,
        rtrim(raw_field_value) AS raw_field_value
    FROM stl_load_errors;
CREATE VIEW stl_loaderror_detail AS
    SELECT userid, slice, session, query, rtrim(filename) AS filename, line_number, 0 AS field, rtrim(colname) AS colname,
        rtrim(raw_field_value) AS value, 0 AS is_null, type, col_length FROM stl_load_errors;
CREATE TABLE stl_load_commits (
    userid integer, query integer, slice integer, name char(256), filename char(256), byte_offset integer,
    lines_scanned bigint, errors integer, curtime timestamp, status integer, file_format char(16)
);

-- "SVV_TABLE_INFO", "PG_TABLE_DEF".
CREATE VIEW svv_table_info AS
    SELECT current_database()::text AS database, n.nspname::text AS schema, c.oid::integer AS table_id,
        c.relname::text AS "table", CASE WHEN o.notes -> 'encodings' = '{}' THEN 'N' ELSE 'Y' END AS encoded,
        CASE
            WHEN o.notes ? 'distkey' THEN 'KEY(' || (o.notes ->> 'distkey') || ')'
            ELSE upper(coalesce(o.notes ->> 'diststyle', 'auto(all)')) END AS diststyle,
        coalesce(o.notes -> 'sortkeys' ->> 0, 'AUTO(SORTKEY)') AS sortkey1,
        coalesce(jsonb_array_length(o.notes -> 'sortkeys'), 0) AS sortkey_num,
        (pg_relation_size(c.oid) / 1048576)::bigint AS size, 0::numeric(10,4) AS pct_used, 0::bigint AS empty,
        0::numeric(5,2) AS unsorted,
        CASE
            WHEN coalesce(s.n_live_tup, 0) = 0 THEN 0
            ELSE least(100, 100.0 * s.n_mod_since_analyze / s.n_live_tup) END::numeric(5,2) AS stats_off,
        coalesce(s.n_live_tup, 0)::numeric(38,0) AS tbl_rows, NULL::numeric(19,2) AS skew_sortkey1,
        NULL::numeric(19,2) AS skew_rows, coalesce(s.n_live_tup, 0)::numeric(38,0) AS estimated_visible_rows,
        NULL::text AS risk_event, 0::numeric(12,4) AS vacuum_sort_benefit
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN standin_tables o ON o.id = c.oid
    LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast');
CREATE VIEW pg_table_def AS
    SELECT n.nspname AS schemaname, c.relname AS tablename, a.attname AS "column",
        replace(format_type(a.atttypid, a.atttypmod), 'varbyte', 'binary varying') AS type,
        coalesce(o.notes -> 'encodings' ->> a.attname, 'none') AS encoding,
        coalesce(o.notes ->> 'distkey' = a.attname, false) AS distkey,
        coalesce((SELECT k.place::integer FROM jsonb_array_elements_text(o.notes -> 'sortkeys') WITH ORDINALITY k (name, place)
            WHERE k.name = a.attname), 0) AS sortkey,
        a.attnotnull AS "notnull"
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN standin_tables o ON o.id = c.oid
    WHERE c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped AND pg_table_is_visible(c.oid)
        AND n.nspname NOT IN ('information_schema', 'pg_toast');
-- "SVV_REDSHIFT_COLUMNS", "SVV_RELATION_PRIVILEGES".
CREATE VIEW svv_redshift_columns AS
    SELECT current_database()::text AS database_name, n.nspname::text AS schema_name, c.relname::text AS table_name,
        a.attname::text AS column_name, a.attnum::integer AS ordinal_position,
        replace(format_type(a.atttypid, a.atttypmod), 'varbyte', 'binary varying') AS data_type,
        pg_get_expr(d.adbin, d.adrelid) AS column_default,
        CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
        coalesce(o.notes -> 'encodings' ->> a.attname, 'none') AS encoding,
        coalesce(o.notes ->> 'distkey' = a.attname, false) AS distkey,
        coalesce((SELECT k.place::integer * CASE
                WHEN lower(coalesce(o.notes ->> 'sortstyle', '')) = 'interleaved' AND k.place % 2 = 0 THEN -1 ELSE 1 END
            FROM jsonb_array_elements_text(o.notes -> 'sortkeys') WITH ORDINALITY k (name, place)
            WHERE k.name = a.attname), 0) AS sortkey,
        NULL::text AS column_acl, col_description(c.oid, a.attnum) AS remarks
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    LEFT JOIN standin_tables o ON o.id = c.oid
    WHERE c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
        AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast');
CREATE VIEW svv_relation_privileges AS
    SELECT n.nspname::text AS namespace_name, c.relname::text AS relation_name, g.privilege_type,
        coalesce(g.grantee, 0)::integer AS identity_id, coalesce(r.rolname, 'public')::text AS identity_name,
        CASE WHEN r.oid IS NULL THEN 'public' WHEN r.rolcanlogin THEN 'user' ELSE 'group' END AS identity_type,
        g.is_grantable AS admin_option, 'TABLE'::text AS privilege_scope
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL aclexplode(c.relacl) g
    LEFT JOIN pg_roles r ON r.oid = g.grantee
    WHERE c.relkind IN ('r', 'v') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast');
GRANT INSERT ON stl_load_commits TO PUBLIC;
GRANT USAGE ON SEQUENCE standin_queries TO PUBLIC;
GRANT SELECT ON stl_load_errors, sys_load_error_detail, stl_loaderror_detail, stl_load_commits, svv_table_info, pg_table_def,
    svv_redshift_columns, svv_relation_privileges TO PUBLIC;
