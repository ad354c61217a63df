# What CUDA code is compiled for. Each architecture takes as long as the rest of the build.

# Those of the GPUs of this machine; where there are none, or nvcc does not know one: A100, with PTX that the driver
# compiles for later ones when they first run it. -DCMAKE_CUDA_ARCHITECTURES=.. or the variable CUDAARCHS choose others.
function(find_architectures found)
  set(architectures 80)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE here OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  if(failed EQUAL 0 AND here MATCHES "^[0-9.\n]+$")
    string(REPLACE "." "" here "${here}")
    string(REPLACE "\n" ";" here "${here}")
    list(REMOVE_DUPLICATES here)
    set(native "")
    foreach(capability IN LISTS here)
      if(known MATCHES "compute_${capability}\n")
        list(APPEND native ${capability}-real)
      else()
        message(STATUS "nvcc does not know the GPU of this machine, of compute capability ${capability}")
        set(native "")
        break()
      endif()
    endforeach()
    if(native)
      set(architectures ${native})
    endif()
  endif()
  set(${found} ${architectures} PARENT_SCOPE)
endfunction()
