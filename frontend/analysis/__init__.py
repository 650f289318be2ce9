"""What is made of answers: values taken apart, compared, checked; arrays; samples."""
