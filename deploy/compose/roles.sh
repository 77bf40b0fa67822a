#!/bin/sh
# Run once by the Postgres image, for a new database: the role that workers log in as. The migration later
# gives takeover_worker its rights, and finds the role here.
set -eu
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 \
  --set password="$WORKER_PASSWORD" <<'SQL'
create role takeover_worker nologin;
create role worker login password :'password' in role takeover_worker;
SQL
