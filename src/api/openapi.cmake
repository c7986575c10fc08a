# openapi.json as a C text inside hf_api; written anew when the file changes.
embed_write(${embed_dir}/openapi_json.c "${CMAKE_SOURCE_DIR}/src/api/openapi.json"
    FROM=src/api/openapi.json HEADER=openapi.h
    "TABLE=const struct embedded_text openapi_files[1]")
target_sources(hf_api PRIVATE ${embed_dir}/openapi_json.c)
